import type { Sequence } from "../../api/types";
import { count, duration, rate } from "../../lib/format";
import { policyOf, policyWithParameters, stateOf, tenantOf } from "../../lib/words";
import { hrefOf } from "../../router";
import type { Column } from "../../ui/table";

const TONES: Record<string, string> = {
  SEQUENCE_STATE_PARKED: "warn",
  SEQUENCE_STATE_ORPHANED: "bad",
};

// The columns of `folioctl top`.
export function sequenceColumns(speed: Map<string, number>): Column<Sequence>[] {
  return [
    {
      name: "Sequence",
      sort: "id",
      number: true,
      cell: (one) => <a href={hrefOf(`sequences/${one.sequence_id}`)}>{one.sequence_id}</a>,
    },
    {
      name: "Label",
      sort: "label",
      long: true,
      cell: (one) => one.label,
      title: (one) => one.label,
    },
    {
      name: "State",
      sort: "state",
      cell: (one) => <span class={`tag ${TONES[one.state] ?? ""}`}>{stateOf(one)}</span>,
    },
    {
      name: "Tokens/s",
      sort: "rate",
      number: true,
      cell: (one) => rate(speed.get(one.sequence_id)),
    },
    { name: "Length", sort: "length", number: true, cell: (one) => count(one.logical_length) },
    { name: "Resident", sort: "resident", number: true, cell: (one) => count(one.resident_tokens) },
    { name: "Pages", sort: "pages", number: true, cell: (one) => count(one.held_pages) },
    { name: "Evicted", sort: "evicted", number: true, cell: (one) => count(one.evicted_pages) },
    { name: "Age", sort: "age", number: true, cell: (one) => duration(one.age_ms) },
    {
      name: "Policy",
      cell: (one) => policyOf(one.cache),
      title: (one) => policyWithParameters(one.cache),
    },
    { name: "Tenant", sort: "tenant", cell: (one) => tenantOf(one.tenant) },
    { name: "Worker", sort: "worker", cell: (one) => one.worker_id },
  ];
}
