import type { ComponentChildren } from "preact";

export interface Column<Row> {
  name: string;
  cell: (row: Row) => ComponentChildren;
  number?: boolean;
  long?: boolean; // cut where it does not fit
  fill?: boolean; // takes the width that is left
  sort?: string; // the name of the order that a click chooses
  title?: (row: Row) => string;
}

interface Props<Row> {
  label: string;
  columns: Column<Row>[];
  rows: Row[];
  keyOf: (row: Row) => string;
  empty: string;
  height?: "low" | "short" | "tall";
  sorted?: string;
  descending?: boolean;
  onSort?: (name: string) => void;
}

function classOf<Row>({ number, long, fill }: Column<Row>): string {
  return [number && "number", long && "long", fill && "fill"].filter(Boolean).join(" ");
}

function Head<Row>({ column, props }: { column: Column<Row>; props: Props<Row> }) {
  const { sorted, descending, onSort } = props;
  const active = column.sort !== undefined && column.sort === sorted;
  return (
    <th
      scope="col"
      class={classOf(column)}
      aria-sort={active ? (descending ? "descending" : "ascending") : undefined}
    >
      {column.sort && onSort ? (
        <button type="button" onClick={() => onSort(column.sort as string)}>
          {column.name}
          {active ? (descending ? " ↓" : " ↑") : ""}
        </button>
      ) : (
        column.name
      )}
    </th>
  );
}

// A table that scrolls inside of its panel. Its height does not change with the number of rows where `height` is given.
export function Table<Row>(props: Props<Row>) {
  const { label, columns, rows, keyOf, empty, height } = props;
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset is for inputs
    // biome-ignore lint/a11y/noNoninteractiveTabindex: keys scroll it
    <div class={`scroll ${height ?? ""}`} role="group" tabIndex={0} aria-label={label}>
      <table class="table">
        <thead>
          <tr>
            {columns.map((column) => (
              <Head key={column.name} column={column} props={props} />
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)}>
              {columns.map((column) => (
                <td key={column.name} class={classOf(column)} title={column.title?.(row)}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
          {rows.length === 0 && (
            <tr>
              <td class="empty" colSpan={columns.length}>
                {empty}
              </td>
            </tr>
          )}
        </tbody>
      </table>
    </div>
  );
}
