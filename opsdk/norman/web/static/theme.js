// Before the first paint, so that a dark page never flashes white.
const chosen = localStorage.getItem("norman-theme");
if (chosen) document.documentElement.dataset.theme = chosen;
