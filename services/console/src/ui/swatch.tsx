import { useLayoutEffect, useRef } from "preact/hooks";

// A small square of a colour. Its style is set by script, because the policy for contents forbids style attributes.
export function Swatch({ colour }: { colour: string }) {
  const square = useRef<HTMLSpanElement>(null);
  useLayoutEffect(() => {
    if (square.current) square.current.style.background = colour;
  }, [colour]);
  return <span class="swatch" ref={square} aria-hidden="true" />;
}
