import { defineConfig } from "vite";

export default defineConfig({
  base: "/console/",
  esbuild: { jsx: "automatic", jsxImportSource: "preact" },
  build: {
    target: "es2022",
    // The colours are light-dark() of CSS, which older targets would have rewritten.
    cssTarget: "chrome123",
    assetsDir: "assets",
    // The preload helper would be a script of its own, and every browser that we serve can preload.
    modulePreload: { polyfill: false },
  },
});
