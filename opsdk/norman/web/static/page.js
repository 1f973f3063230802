"use strict";

const $ = (selector, root = document) => root.querySelector(selector);
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

// ------------------------------------------------------------------ requests
function csrfToken() {
  const name = document.body.dataset.csrf + "=";
  const pair = document.cookie.split("; ").find((each) => each.startsWith(name));
  return pair ? pair.slice(name.length) : "";
}

async function send(method, url, yaml) {
  const headers = { accept: "application/json", "x-api-csrf": csrfToken(), "x-norman-page": "1" };
  if (yaml !== undefined) headers["content-type"] = "application/yaml";
  const response = await fetch(url, { method, headers, body: yaml });
  const text = await response.text();
  const data = text ? JSON.parse(text) : null;
  return { ok: response.ok && data?.type !== "/meta/schemas/error", data };
}

// --------------------------------------------------------------------- forms
class FieldError extends Error {
  constructor(field, message) {
    super(message);
    this.field = field;
  }
}

// The YAML of a value, or undefined for an empty input. JSON is YAML.
function valueOf(input) {
  const kind = input.dataset.kind;
  if (kind === "checkbox") return String(input.checked);
  if (kind === "list") {
    const lines = input.value.split("\n").map((line) => line.trim()).filter((line) => line);
    return lines.length || input.defaultValue ? JSON.stringify(lines) : undefined;
  }
  if (input.value.trim() === "") return undefined;
  if (kind === "number") {
    if (Number.isNaN(Number(input.value))) throw new FieldError(input.name, "not a number");
    return input.value;
  }
  if (kind === "data") return "\n" + input.value.split("\n").map((line) => `  ${line}`).join("\n");
  return JSON.stringify(input.value);
}

function bodyOf(form) {
  const lines = [];
  for (const input of $$("[data-kind]", form)) {
    let value = valueOf(input);
    if (value === undefined && input.defaultValue && form.dataset.method === "PUT") value = "null";
    if (value !== undefined) lines.push(`${JSON.stringify(input.name)}: ${value}`);
  }
  return lines.length ? lines.join("\n") : "{}";
}

function showProblem(form, field, message) {
  const name = (field || "").split(".")[0];
  const owner = name ? $(`[data-field="${CSS.escape(name)}"]`, form) : null;
  const place = owner ? $(".problem", owner) : $(":scope > .problem", form);
  place.textContent = owner && field !== name ? `${field}: ${message}` : message;
  place.hidden = false;
  if (owner) {
    const input = $("[data-kind]", owner);
    input.setAttribute("aria-invalid", "true");
    input.focus();
  }
}

function clearProblems(form) {
  for (const place of $$(".problem", form)) place.hidden = true;
  for (const input of $$("[aria-invalid]", form)) input.removeAttribute("aria-invalid");
}

async function submit(form) {
  clearProblems(form);
  const button = $("button.primary", form);
  button.disabled = true;
  try {
    const answer = await send(form.dataset.method, form.dataset.url, bodyOf(form));
    if (!answer.ok) {
      const { fieldName, message, code } = answer.data;
      showProblem(form, fieldName, message ? `${code}: ${message}` : code);
    } else if (form.dataset.follow) {
      location.assign(answer.data.links.self);
    } else {
      location.reload();
    }
  } catch (error) {
    if (!(error instanceof FieldError)) showProblem(form, "", `no answer: ${error.message}`);
    else showProblem(form, error.field, error.message);
  } finally {
    button.disabled = false;
  }
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.matches(".filters")) for (const input of $$("input", form)) input.disabled = !input.value;
  if (!form.matches("form.body")) return;
  event.preventDefault();
  submit(form);
});

// ------------------------------------------------------------ buttons, dialogs
async function run(button, method, after) {
  const problem = $("#problem");
  button.disabled = true;
  const answer = await send(method, button.dataset.url);
  button.disabled = false;
  if (answer.ok) after();
  else if (problem) {
    problem.textContent = `${answer.data.code}: ${answer.data.message}`;
    problem.hidden = false;
  }
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if (button.id === "theme") toggleTheme();
  else if (button.id === "help") $("#keys").showModal();
  else if (button.matches(".close")) button.closest("dialog").close();
  else if (button.matches(".action") && button.dataset.dialog) document.getElementById(button.dataset.dialog).showModal();
  else if (button.matches(".action")) run(button, "POST", () => location.reload());
  else if (button.id === "remove") {
    if (button.dataset.sure) run(button, "DELETE", () => location.assign(button.dataset.back));
    else {
      button.dataset.sure = "1";
      button.textContent = "delete: sure?";
      setTimeout(() => {
        delete button.dataset.sure;
        button.textContent = "delete";
      }, 4000);
    }
  }
});

function toggleTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("norman-theme", root.dataset.theme);
}

// ---------------------------------------------------------------- live table
function rowOf(html) {
  const template = document.createElement("template");
  template.innerHTML = html.trim();
  return template.content.firstElementChild;
}

function count(change) {
  const total = $("#total");
  total.textContent = String(Number(total.textContent) + change);
  const empty = $("#empty");
  if (empty) empty.hidden = Number(total.textContent) > 0;
}

// Rows that are not loaded yet count too, so remember which ids this page has seen.
function apply(change, known) {
  const existing = document.getElementById(`row-${change.id}`);
  if (!change.row) {
    if (existing) existing.remove();
    if (existing || known.delete(change.id)) count(-1);
    return;
  }
  const row = rowOf(change.row);
  row.classList.add("changed");
  if (existing) existing.replaceWith(row);
  else if (!$("#rows tr.more")) {
    $("#rows").prepend(row);
    count(1);
  }
  known.add(change.id);
  showTimes(row);
}

function follow(live) {
  const known = new Set();
  const source = new EventSource(live.dataset.url);
  source.onopen = () => live.classList.add("on");
  source.onerror = () => live.classList.remove("on");
  source.onmessage = (event) => apply(JSON.parse(event.data), known);
  addEventListener("pagehide", () => source.close());
}

// ---------------------------------------------------------------------- times
function ago(seconds) {
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  for (const [length, name] of units) if (seconds >= length) return `${Math.floor(seconds / length)} ${name} ago`;
  return "now";
}

function showTimes(root) {
  for (const time of $$("time", root)) {
    const seconds = (Date.now() - Date.parse(time.dateTime)) / 1000;
    if (!Number.isNaN(seconds) && seconds >= 0) time.textContent = ago(seconds);
  }
}

// ----------------------------------------------------------------------- keys
function move(step) {
  const rows = $$("#rows tr[data-id]");
  if (!rows.length) return;
  const at = rows.indexOf(document.activeElement.closest ? document.activeElement.closest("tr") : null);
  const row = rows[Math.min(Math.max(at + step, 0), rows.length - 1)];
  row.focus();
  row.scrollIntoView({ block: "nearest" });
}

const KEYS = {
  "/": () => $("#find-type").focus(),
  f: () => $(".filters input")?.focus(),
  j: () => move(1),
  k: () => move(-1),
  c: () => $("#create")?.click(),
  e: () => $("#edit")?.click(),
  u: () => $("#up")?.click(),
  t: toggleTheme,
  "?": () => $("#keys").showModal(),
};

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && event.target.matches("input, textarea, select")) event.target.blur();
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea, select")) return;
  if (event.key === "Enter" && event.target.dataset.href) location.assign(event.target.dataset.href);
  const action = KEYS[event.key];
  if (action) {
    event.preventDefault();
    action();
  }
});

document.addEventListener("input", (event) => {
  if (event.target.id !== "find-type") return;
  const text = event.target.value.toLowerCase();
  for (const item of $$("aside li")) item.hidden = !item.textContent.toLowerCase().includes(text);
});

document.addEventListener("DOMContentLoaded", () => {
  showTimes(document);
  document.body.addEventListener("htmx:afterSwap", (event) => showTimes(event.target.parentElement || document));
  const live = $("#live");
  if (live) follow(live);
});
