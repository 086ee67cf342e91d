import assert from "node:assert/strict";
import { test } from "node:test";
import type { Pool, Sequence } from "../src/api/types";
import { extend, NO_HISTORY } from "../src/data/history";
import { NO_RATES, RateMeter } from "../src/data/rates";

function sequence(id: string, prompt: number, length: number): Sequence {
  return { sequence_id: id, prompt_tokens: prompt, logical_length: length } as Sequence;
}

test("prompt and answer have a speed each", () => {
  const meter = new RateMeter();
  meter.add(0, [sequence("1", 100, 60)], 0);
  const rates = meter.add(2000, [sequence("1", 100, 120)], 8);
  assert.deepEqual([rates.prompt, rates.decoded, rates.evicted], [20, 10, 4]);
  assert.equal(rates.bySequence.get("1"), 30);
});

test("new and parked sequences count nothing", () => {
  const meter = new RateMeter();
  meter.add(0, [sequence("1", 10, 50)], 0);
  const rates = meter.add(1000, [sequence("1", 10, 0), sequence("2", 10, 40)], 0);
  assert.deepEqual([rates.prompt, rates.decoded], [0, 0]);
  assert.equal(rates.bySequence.get("1"), 0);
  assert.equal(rates.bySequence.has("2"), false);
});

test("a rate is over four snapshots, and none is over a gap", () => {
  const meter = new RateMeter();
  for (let second = 0; second <= 10; ++second) {
    const rates = meter.add(
      second * 1000,
      [sequence("1", 0, second < 8 ? 0 : (second - 7) * 30)],
      0,
    );
    if (second === 10) assert.equal(rates.decoded, 30);
  }
  assert.equal(meter.add(60_000, [sequence("1", 0, 5000)], 0).decoded, null);
});

test("the history forgets, and has a hole where nothing was seen", () => {
  const pools = [{ held_pages: 5, reserved_pages: 1, quarantined_pages: 0 }] as Pool[];
  let history = NO_HISTORY;
  for (let second = 0; second <= 310; ++second) history = extend(history, second, pools, NO_RATES);
  assert.equal(history.times[0], 10);
  assert.equal(history.held.at(-1), 5);
  history = extend(history, 400, pools, NO_RATES);
  assert.deepEqual(history.times.slice(-2), [311, 400]);
  assert.deepEqual(history.held.slice(-2), [null, 5]);
  const late = extend(history, 5000, pools, NO_RATES);
  assert.deepEqual(late.times, [5000]);
});
