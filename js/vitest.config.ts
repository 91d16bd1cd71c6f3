import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["tests/**/*.test.ts", "lab/tests/**/*.test.ts"],
    restoreMocks: true,
  },
});
