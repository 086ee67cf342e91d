import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";

interface Props {
  title: string;
  end?: ComponentChildren; // at the right of the title
  flush?: boolean; // no space around the contents
  class?: string;
  children: ComponentChildren;
}

// A region of the page with a heading.
export function Panel({ title, end, flush, class: name = "", children }: Props) {
  const id = useId();
  return (
    <section class={`panel ${name}`} aria-labelledby={id}>
      <div class="panel-head">
        <h2 id={id}>{title}</h2>
        {end && <div class="end">{end}</div>}
      </div>
      {flush ? children : <div class="panel-body">{children}</div>}
    </section>
  );
}
