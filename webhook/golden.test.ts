import { join } from "node:path";
import { testGoldenPods } from "#test/golden-pods.ts";

testGoldenPods(join(import.meta.dirname, "fixtures"), () => undefined);
