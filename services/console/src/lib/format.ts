// Numbers as people read them. All of them keep their width while they change, in tabular figures.

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export function count(value: number | string): string {
  return whole.format(Number(value));
}

// A count in few characters, such as "65.5 k", for axes.
export function short(value: number): string {
  const size = Math.abs(value);
  for (const [unit, suffix] of [
    [1e9, " G"],
    [1e6, " M"],
    [1e4, " k"],
  ] as const) {
    if (size >= unit) {
      const scaled = value / (unit === 1e4 ? 1e3 : unit);
      return `${Math.abs(scaled) < 100 ? Number(scaled.toFixed(1)) : Math.round(scaled)}${suffix}`;
    }
  }
  return size >= 100 || Number.isInteger(value)
    ? whole.format(value)
    : String(Number(value.toFixed(1)));
}

// A rate: one decimal where it is small.
export function rate(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  return value >= 1000 ? count(value) : value.toFixed(1);
}

export function bytes(value: number | string): string {
  let size = Number(value);
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (size >= 1024 && at < units.length - 1) {
    size /= 1024;
    at += 1;
  }
  return `${at === 0 || size >= 100 ? Math.round(size) : size.toFixed(1)} ${units[at]}`;
}

export function duration(milliseconds: number | string): string {
  const ms = Number(milliseconds);
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export function share(part: number, all: number): string {
  if (all <= 0) return "–";
  const percent = (100 * part) / all;
  return percent > 0 && percent < 10 ? `${percent.toFixed(1)} %` : `${Math.round(percent)} %`;
}

export function plural(number: number, one: string, many = `${one}s`): string {
  return `${count(number)} ${number === 1 ? one : many}`;
}

const clock = new Intl.DateTimeFormat("en-GB", {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
});

// The time of day of microseconds since 1970, here.
export function time(microseconds: string): string {
  return clock.format(Number(microseconds) / 1000);
}

// "SEQUENCE_STATE_DECODE" as "decode".
export function word(enumerator: string, prefix: string): string {
  return enumerator.replace(prefix, "").toLowerCase().replaceAll("_", " ");
}
