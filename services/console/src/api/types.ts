// The messages of proto/folio/v1/admin.proto as JSON, as far as the console reads them. 64-bit numbers are strings.

export interface Policy {
  [kind: string]: Record<string, unknown>;
}

export interface CacheOptions {
  policy?: Policy;
  budget_tokens: number;
  layer_budget_tokens: number[];
  sink_tokens?: number;
  recent_tokens?: number;
  eviction_mode: string;
  compaction: string;
  compaction_stride_tokens: number;
  layers: string;
  prompt_share?: number;
  protect_ends: number;
  segments: number;
}

export interface Manager {
  build: string;
  pid: number;
  uptime_ms: string;
  draining: boolean;
  steering: boolean;
}

export interface Layout {
  model: string;
  num_layers: number;
  num_kv_heads: number;
  head_dim: number;
  page_tokens: number;
}

export interface Pool {
  pool_id: number;
  layout?: Layout;
  pool_bytes: string;
  page_bytes: string;
  total_pages: number;
  free_pages: number;
  held_pages: number;
  quarantined_pages: number;
  reserved_pages: number;
  sequences: number;
  orphans: number;
  total_swap_slots: number;
  used_swap_slots: number;
}

export interface Sequence {
  sequence_id: string;
  worker_id: string;
  label: string;
  state: string;
  cache?: CacheOptions;
  prompt_tokens: number;
  max_new_tokens: number;
  logical_length: number;
  resident_tokens: number;
  held_pages: number;
  reserved_pages: number;
  held_bytes: string;
  evicted_tokens: number;
  evicted_pages: number;
  plan_epoch: string;
  age_ms: number;
  lease_epoch: number;
  orphan_ms: number;
  swap_slots: number;
  tenant: string;
  priority: number;
  pinned: boolean;
  closing: boolean;
}

export interface Range {
  begin: number;
  end: number;
}

export interface LayerTable {
  pages: { page: number; generation: number }[];
  resident_tokens: number;
  kept: Range[];
}

export interface Loss {
  layer: number;
  tokens: number;
  begin: number;
  end: number;
}

export interface PastPlan {
  plan_epoch: string;
  ago_ms: number;
  logical_length: number;
  compaction: boolean;
  freed_pages: number;
  losses: Loss[];
}

export interface SequenceDetail {
  sequence: Sequence;
  layers: LayerTable[];
  plans: PastPlan[];
}

export interface Fence {
  reason: string;
  fenced_ms: number;
  silent_ms: number;
  blocked_pages: number;
  orphans: number;
  kill_in_ms?: number;
  killed: boolean;
  kill_error?: string;
}

export interface Worker {
  worker_id: string;
  name: string;
  processes: { rank: number; pid: number; has_pages: boolean; ended: boolean }[];
  sequences: number;
  held_pages: number;
  lease_remaining_ms?: number;
  steps_done?: string;
  step_in_flight_ms?: number;
  fence?: Fence;
  draining: boolean;
}

export interface Workers {
  workers: Worker[];
  lease_ttl_ms: number;
}

export interface Tenant {
  tenant: string;
  sequences: number;
  parked: number;
  held_pages: number;
  held_bytes: string;
  waiting: number;
}

export interface PageRun {
  pages: number;
  state: string;
  sequence_id: string;
  layer?: number;
  score?: number;
}

export interface FolioEvent {
  number: string;
  time_us: string;
  kind: string;
  worker_id?: string;
  worker_name?: string;
  rank?: number;
  pid?: number;
  sequence_id?: string;
  label?: string;
  sequences?: number;
  pages?: number;
  freed_pages?: number;
  tokens?: number;
  lease_epoch?: number;
  policy?: string;
  code?: string;
  text?: string;
}

export interface Events {
  events: FolioEvent[];
  lost_events: string;
}
