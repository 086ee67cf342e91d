import type { Answer } from "./answer";

// Fields that have a place of their own for an error. All other errors stand in the answer.
const PLACED = [
  "cache.policy",
  "cache.budget",
  "cache.budget_tokens",
  "cache.layers",
  "max_tokens",
  "temperature",
  "seed",
];

// The error of the answer if it concerns one of the fields.
export function errorsAt({ error }: Answer, ...params: string[]): string | null {
  return error?.param && params.includes(error.param) ? error.message : null;
}

// The error of the answer if no field has a place for it.
export function errorElsewhere({ error }: Answer): string | null {
  return error && !(error.param && PLACED.includes(error.param)) ? error.message : null;
}
