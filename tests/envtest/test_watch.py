"""Watches and lists, as clients see them."""

from __future__ import annotations

from server_caller import MERGE, Caller

from envtest.environment import Environment
from opsdk.aio.clock import monotonic

CM = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


async def make(call: Caller, name: str, **labels: str) -> dict[str, object]:
    """Create a config map."""
    return (await call("POST", CM, {"metadata": {"name": name, "labels": labels}})).json


async def test_a_watch_without_a_version_shows_what_is_there() -> None:
    """Synthetic ADDED events come first, then the live ones."""
    async with Environment() as env:
        call = Caller(env)
        await make(call, "a")
        async with call.watch(f"{CM}?watch=1") as events:
            assert (await events.get())["object"]["metadata"]["name"] == "a"
            await make(call, "b")
            await call("DELETE", f"{CM}/b")
            assert [(await events.get())["type"] for _ in range(2)] == ["ADDED", "DELETED"]


async def test_a_deletion_answers_with_the_revision_of_the_removal() -> None:
    """A pod on a node, without a grace period, is marked and removed in one request; both have an event."""
    async with Environment() as env:
        call = Caller(env)
        spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "n", "terminationGracePeriodSeconds": 0}
        pod = (await call("POST", PODS, {"metadata": {"name": "p"}, "spec": spec})).json
        async with call.watch(f"{PODS}?watch=1&resourceVersion={pod['metadata']['resourceVersion']}") as events:
            removed = (await call("DELETE", f"{PODS}/p")).json
            marked, gone = await events.get(), await events.get()
        assert (marked["type"], gone["type"]) == ("MODIFIED", "DELETED")
        assert removed["metadata"] == gone["object"]["metadata"]
        assert int(gone["object"]["metadata"]["resourceVersion"]) > int(marked["object"]["metadata"]["resourceVersion"])


async def test_a_watch_resumes_after_a_version() -> None:
    """A watch from version N sends each later event once."""
    async with Environment() as env:
        call = Caller(env)
        first = await make(call, "a")
        await make(call, "b")
        async with call.watch(f"{CM}?watch=1&resourceVersion={first['metadata']['resourceVersion']}") as events:
            assert (await events.get())["object"]["metadata"]["name"] == "b"
            assert events.empty()


async def test_objects_enter_and_leave_a_selection() -> None:
    """Starting to match is ADDED; ceasing to match is DELETED with the state that was known."""
    async with Environment() as env:
        call = Caller(env)
        async with call.watch(f"{CM}?watch=1&labelSelector=x=1") as events:
            await make(call, "a")
            for value in ("1", "2"):
                await call("PATCH", f"{CM}/a", {"metadata": {"labels": {"x": value}}}, content_type=MERGE)
            added, removed = await events.get(), await events.get()
            assert (added["type"], removed["type"]) == ("ADDED", "DELETED")
            assert removed["object"]["metadata"]["labels"] == {"x": "1"}
            versions = [int(e["object"]["metadata"]["resourceVersion"]) for e in (added, removed)]
            assert versions == [env.plane.storage.current_rv - 1, env.plane.storage.current_rv]


async def test_a_version_too_old_is_an_error_event() -> None:
    """The stream is a 200 with one ERROR event of code 410, and ends."""
    async with Environment() as env:
        call = Caller(env)
        first = await make(call, "a")
        await make(call, "b")
        env.plane.storage.compact(env.plane.storage.current_rv)
        async with call.watch(f"{CM}?watch=1&resourceVersion={first['metadata']['resourceVersion']}") as events:
            error = await events.get()
            assert (error["type"], error["object"]["code"]) == ("ERROR", 410)
            assert await events.get() is None


async def test_the_end_of_initial_events_is_reported() -> None:
    """A streaming list sends everything, then a bookmark with the annotation that clients wait for."""
    async with Environment() as env:
        call = Caller(env)
        await make(call, "a")
        query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        async with call.watch(f"{CM}?{query}") as events:
            added, mark = await events.get(), await events.get()
            assert (added["type"], mark["type"]) == ("ADDED", "BOOKMARK")
            assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_a_watch_ends_at_its_deadline() -> None:
    """TimeoutSeconds ends the stream cleanly; bookmarks come each minute and just before the end."""
    async with Environment() as env:
        call = Caller(env)
        start = monotonic()
        async with call.watch(f"{CM}?watch=1&timeoutSeconds=100&allowWatchBookmarks=true&resourceVersion=0") as events:
            first = await events.get()
            assert first["type"] == "BOOKMARK"
            assert first["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
            await make(call, "a")
            events_read = [await events.get() for _ in range(4)]
        assert [e and e["type"] for e in events_read] == ["ADDED", "BOOKMARK", "BOOKMARK", None]
        assert monotonic() - start == 100


async def test_an_idle_watch_gets_bookmarks() -> None:
    """An idle server sends a bookmark of its revision about once a minute, and just before the timeout."""
    async with Environment() as env:
        call = Caller(env)
        revision = (await make(call, "a"))["metadata"]["resourceVersion"]  # type: ignore[index]
        query = f"watch=1&timeoutSeconds=200&allowWatchBookmarks=true&resourceVersion={revision}"
        start = monotonic()
        times: list[float] = []
        async with call.watch(f"{CM}?{query}") as events:
            while (event := await events.get()) is not None:
                assert (event["type"], event["object"]["metadata"]["resourceVersion"]) == ("BOOKMARK", revision)
                times.append(monotonic() - start)
        assert len(times) == 4
        assert all(60 * n <= index <= 61.25 * n for n, index in enumerate(times[:3], 1))
        assert times[3] == 198


async def test_a_watch_from_the_future_gets_no_bookmark_of_the_past() -> None:
    """No bookmark is older than the revision that the watch started from."""
    async with Environment() as env:
        call = Caller(env)
        query = "watch=1&timeoutSeconds=200&allowWatchBookmarks=true&resourceVersion=99999"
        async with call.watch(f"{CM}?{query}") as events:
            assert await events.get() is None


async def test_a_watch_that_is_over_before_it_begins_is_empty() -> None:
    """A watch with a negative timeout is empty."""
    async with Environment() as env:
        call = Caller(env)
        await make(call, "a")
        async with call.watch(f"{CM}?watch=1&timeoutSeconds=-1") as events:
            assert await events.get() is None


async def test_initial_events_of_a_revision_that_never_comes_are_an_error_of_the_stream() -> None:
    """A future revision is awaited for three seconds; then the stream has a timeout error."""
    async with Environment() as env:
        call = Caller(env)
        start = monotonic()
        query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=999999"
        async with call.watch(f"{CM}?{query}") as events:
            event = await events.get()
            assert (event["type"], event["object"]["reason"], event["object"]["code"]) == ("ERROR", "Timeout", 504)
            assert await events.get() is None
        assert 3 <= monotonic() - start < 4


async def test_bookmarks_of_a_table_have_a_row() -> None:
    """A bookmark in a table watch is a row whose object has revision and annotation."""
    query = "watch=1&allowWatchBookmarks=true"
    async with Environment() as env, Caller(env).watch(f"{CM}?{query}", accept=TABLE) as events:
        [row] = (await events.get())["object"]["rows"]
        assert row["cells"][0] == ""
        assert row["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_any_method_watches_at_the_old_paths_of_custom_resources_only() -> None:
    """The old watch paths accept any method for custom resources, but only GET for built-in kinds."""
    async with Environment() as env:
        call = Caller(env)
        old = "/api/v1/watch/namespaces/default/configmaps?timeoutSeconds=1"
        assert (await call("GET", old)).status == 200
        assert (await call("POST", old, {})).status == 405
        names = {"plural": "things", "kind": "Thing"}
        schema = {"openAPIV3Schema": {"type": "object"}}
        spec = {"group": "x.io", "scope": "Cluster", "names": names}
        spec["versions"] = [{"name": "v1", "served": True, "storage": True, "schema": schema}]
        crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        assert (await call("POST", crds, {"metadata": {"name": "things.x.io"}, "spec": spec})).status == 201
        assert (await call("POST", "/apis/x.io/v1/watch/things?timeoutSeconds=1", {})).status == 200


async def test_tables_name_their_columns_once() -> None:
    """A table watch has column definitions only in its first event."""
    async with Environment() as env:
        call = Caller(env)
        async with call.watch(f"{CM}?watch=1", accept=TABLE) as events:
            await make(call, "a")
            await make(call, "b")
            first, second = (await events.get())["object"], (await events.get())["object"]
            assert [c["name"] for c in first["columnDefinitions"]] == ["Name", "Data", "Age"]
            assert (second["columnDefinitions"], second["rows"][0]["cells"]) == (None, ["b", 0, "0s"])


async def test_pages_are_one_list() -> None:
    """Pages with limit and continue are one snapshot, in key order, with the same version."""
    async with Environment() as env:
        call = Caller(env)
        for name in "abcde":
            await make(call, name)
        names, versions, token = [], set(), ""
        while True:
            page = (await call("GET", f"{CM}?limit=2&continue={token}")).json
            names += [i["metadata"]["name"] for i in page["items"]]
            versions.add(page["metadata"]["resourceVersion"])
            await make(call, f"x{len(names)}")
            token = page["metadata"].get("continue", "")
            if not token:
                break
        assert (names, len(versions)) == (list("abcde"), 1)


async def test_an_expired_page_says_how_to_go_on() -> None:
    """After a compaction the token is a 410 that carries another token."""
    async with Environment() as env:
        call = Caller(env)
        for name in "abc":
            await make(call, name)
        token = (await call("GET", f"{CM}?limit=1")).json["metadata"]["continue"]
        await make(call, "d")
        env.plane.storage.compact(env.plane.storage.current_rv)
        expired = await call("GET", f"{CM}?limit=1&continue={token}")
        assert (expired.status, expired.json["reason"]) == (410, "Expired")
        rest = await call("GET", f"{CM}?continue={expired.json['metadata']['continue']}")
        assert rest.status == 200


async def test_unknown_field_selectors_are_refused() -> None:
    """An unsupported field selector is an error with the kind."""
    async with Environment() as env:
        answer = await Caller(env)("GET", f"{CM}?fieldSelector=data.k=1")
        assert answer.status == 400
