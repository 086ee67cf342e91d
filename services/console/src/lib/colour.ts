// Colours as the bytes of an image: 0xAABBGGRR, as little-endian machines have RGBA in memory.

export type Pixel = number;

export function pixel(red: number, green: number, blue: number): Pixel {
  return (0xff000000 | (blue << 16) | (green << 8) | red) >>> 0;
}

function gamma(linear: number): number {
  const value = linear <= 0.0031308 ? 12.92 * linear : 1.055 * linear ** (1 / 2.4) - 0.055;
  return Math.round(255 * Math.min(1, Math.max(0, value)));
}

// OKLCH to sRGB (Björn Ottosson, 2020), so that steps of a ramp look alike. The hue is in degrees.
export function oklch(lightness: number, chroma: number, hue: number): Pixel {
  const a = chroma * Math.cos((hue * Math.PI) / 180);
  const b = chroma * Math.sin((hue * Math.PI) / 180);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return pixel(
    gamma(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
    gamma(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
    gamma(-0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s),
  );
}

export function css(colour: Pixel): string {
  return `rgb(${colour & 255} ${(colour >> 8) & 255} ${(colour >> 16) & 255})`;
}

// "rgb(1, 2, 3)", as computed styles have colours.
export function parse(text: string): Pixel {
  const [red = 0, green = 0, blue = 0] = (text.match(/[\d.]+/g) ?? []).map(Number);
  return pixel(red, green, blue);
}

// `share` of `over`, the rest of `under`.
export function mix(under: Pixel, over: Pixel, share: number): Pixel {
  const channel = (shift: number) =>
    Math.round(((under >> shift) & 255) * (1 - share) + ((over >> shift) & 255) * share);
  return pixel(channel(0), channel(8), channel(16));
}

// A ramp of `steps` colours from low to high. In the dark high values are light, otherwise they are dark.
export function ramp(steps: number, dark: boolean): Pixel[] {
  return Array.from({ length: steps }, (_, step) => {
    const at = steps > 1 ? step / (steps - 1) : 1;
    const lightness = dark ? 0.36 + 0.5 * at : 0.86 - 0.5 * at;
    return oklch(lightness, 0.13 - 0.03 * Math.abs(at - 0.5), 285 - 195 * at);
  });
}

// Colours that tell neighbours apart: the golden angle spreads hues, whatever their number.
export function category(index: number, dark: boolean): Pixel {
  const lightness = (dark ? 0.7 : 0.62) + (index % 3 === 1 ? 0.08 : index % 3 === 2 ? -0.07 : 0);
  return oklch(lightness, 0.13, (255 + index * 137.508) % 360);
}
