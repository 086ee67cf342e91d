import assert from "node:assert/strict";
import { test } from "node:test";
import type { Events, FolioEvent, PageRun } from "../src/api/types";
import { addEvents, chosenEvents, NO_EVENTS } from "../src/data/event_log";
import { expand, FREE, HELD, QUARANTINED, ranks } from "../src/data/page_table";
import { cellAt, fit, moved } from "../src/lib/grid";

const run = (pages: number, state: string, id = "0", more = {}): PageRun => ({
  pages,
  state: `PAGE_STATE_${state}`,
  sequence_id: id,
  ...more,
});

test("runs become pages", () => {
  const table = expand([
    run(2, "FREE"),
    run(1, "HELD", "7", { layer: 0, score: -0.5 }),
    run(1, "HELD", "9"),
    run(2, "HELD", "7", { layer: 29 }),
    run(1, "QUARANTINED"),
    run(1, "HELD"),
  ]);
  assert.deepEqual([...table.state], [FREE, FREE, HELD, HELD, HELD, HELD, QUARANTINED, HELD]);
  assert.deepEqual([...table.owner], [-1, -1, 0, 1, 0, 0, -1, -1]);
  assert.deepEqual([...table.layer], [-1, -1, 0, -1, 29, 29, -1, -1]);
  assert.deepEqual(table.owners, [
    { id: "7", pages: 3 },
    { id: "9", pages: 1 },
  ]);
  assert.equal(table.score[2], -0.5);
  assert.ok(Number.isNaN(table.score[3]));
});

test("scores become ranks", () => {
  const ranked = ranks(Float32Array.of(5, Number.NaN, -100, 5, 7));
  assert.deepEqual(
    [...ranked].map((one) => Math.round(one * 3)),
    [1, Number.NaN, 0, 1, 3],
  );
});

test("cells fill the place, and keys stay inside", () => {
  for (const pages of [1, 100, 8192, 65_536]) {
    const grid = fit(pages, 1000, 600);
    assert.ok(grid.columns * grid.cell <= 1000 && grid.columns * grid.rows >= pages);
    assert.ok(grid.rows * grid.cell <= 600);
  }
  const grid = { cell: 10, columns: 4, rows: 3 };
  assert.equal(cellAt(grid, 10, 25, 15), 6);
  assert.equal(cellAt(grid, 10, 35, 25), -1);
  assert.equal(cellAt(grid, 10, 45, 5), -1);
  assert.equal(moved("ArrowDown", 2, 4, 10), 6);
  assert.equal(moved("ArrowDown", 8, 4, 10), 8);
  assert.equal(moved("End", 2, 4, 10), 9);
  assert.equal(moved("x", 2, 4, 10), null);
});

test("events are kept by kind, and only new evictions count", () => {
  const event = (number: number, kind: string, pages?: number): FolioEvent => ({
    number: String(number),
    time_us: "0",
    kind: `EVENT_KIND_${kind}`,
    pages,
  });
  const got = (events: FolioEvent[], lost = 0): Events => ({ events, lost_events: String(lost) });
  let log = addEvents(
    NO_EVENTS,
    got([event(1, "POOL_CREATED"), event(2, "PAGES_EVICTED", 30)], 4),
    true,
  );
  assert.deepEqual([log.newest, log.evictedPages, log.lost], [2, 0, 0]);
  const flood = Array.from({ length: 500 }, (_, index) => event(3 + index, "PAGES_EVICTED", 2));
  log = addEvents(log, got([...flood, event(503, "WORKER_FENCED")], 3), false);
  assert.deepEqual([log.newest, log.evictedPages, log.lost], [503, 1000, 3]);
  const numbers = (kind: string, most = 3) =>
    chosenEvents(log, kind, most).map((one) => one.number);
  assert.deepEqual(numbers("rare"), ["503", "1"]);
  assert.deepEqual(numbers(""), ["503", "502", "501"]);
  assert.deepEqual(numbers("EVENT_KIND_POOL_CREATED"), ["1"]);
});
