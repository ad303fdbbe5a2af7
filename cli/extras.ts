import { agent } from "#extras/agent/extra.ts";
import { dashboard } from "#extras/dashboard/extra.ts";
import type { Extra } from "#extras/extension-points.ts";
import { podDns } from "#extras/pod-dns/extra.ts";
import { publishers } from "#extras/publishers/extra.ts";

/** The optional parts. To remove one, delete its folder and its entry here, and run `npm run gen`. */
export const EXTRAS: readonly Extra[] = [agent, dashboard, podDns, publishers];
