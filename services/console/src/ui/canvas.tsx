import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

export interface Size {
  width: number; // CSS pixels
  height: number;
}

// The width of an element, followed as it changes.
export function useWidth<E extends HTMLElement>() {
  const element = useRef<E>(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const one = element.current;
    if (!one) return;
    setWidth(one.clientWidth);
    const observer = new ResizeObserver(() => setWidth(one.clientWidth));
    observer.observe(one);
    return () => observer.disconnect();
  }, []);
  return [element, width] as const;
}

// Draws into a canvas of the size, in the pixels of the screen, whenever one of `inputs` changes.
export function useDrawing(
  size: Size,
  draw: (context: CanvasRenderingContext2D, scale: number) => void,
  inputs: unknown[],
) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const one = canvas.current;
    const context = one?.getContext("2d");
    if (!one || !context || size.width <= 0 || size.height <= 0) return;
    const scale = window.devicePixelRatio || 1;
    const width = Math.round(size.width * scale);
    const height = Math.round(size.height * scale);
    if (one.width !== width) one.width = width;
    if (one.height !== height) one.height = height;
    one.style.width = `${size.width}px`;
    one.style.height = `${size.height}px`;
    draw(context, scale);
  }, [size.width, size.height, ...inputs]);
  return canvas;
}
