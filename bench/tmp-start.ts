import { startAll, stopAll, COMPONENTS } from "./footprint-pods.ts";
import { serve } from "./controller-process.ts";
import { settingsOf } from "./controller-phases.ts";
import { cpuOf, footprintOf } from "./process.ts";
import { openBed } from "./scale-bed.ts";
import { ROOT } from "./chart.ts";
const programs = process.argv[2]!.split(",");
const rounds = Number(process.argv[3] ?? 5);
const prof = process.argv[4];
const bed = await openBed(ROOT, programs[0]!, 100);
const pods = await startAll(bed, 100);
await stopAll(pods);
const med = (a: number[]) => a.sort((x, y) => x - y)[a.length >> 1]!.toFixed(0);
const seen = new Map<string, { w: number[]; c: number[]; a: number[]; r: number[] }>();
for (let i = 0; i < rounds; i++)
  for (const program of i % 2 ? programs : programs.toReversed()) {
    const up = [];
    for (const component of COMPONENTS) {
      const settings = { controller: settingsOf(bed), webhook: ["webhook.port=0"], proxy: [] }[component];
      const p = await serve(bed.cluster, component, settings, { program: { path: program, tree: ROOT }, podName: component + "-0", nodeFlags: prof ? ["--cpu-prof", `--cpu-prof-dir=${prof}/${component}`, "--cpu-prof-interval=200"] : [] });
      up.push(p);
      await p.ready();
      const w = performance.now() - p.startedAt;
      const c = cpuOf(p.pid);
      const k = program + " " + component;
      const s = seen.get(k) ?? { w: [], c: [], a: [], r: [] };
      seen.set(k, s);
      s.w.push(w); s.c.push(c);
    }
    await new Promise((r) => setTimeout(r, 4000));
    up.forEach((p, j) => { const f = footprintOf(p.pid); const s = seen.get(program + " " + COMPONENTS[j])!; s.a.push(f.anonymous); s.r.push(f.rss); });
    for (const p of up.toReversed()) await p.stop();
  }
for (const [k, s] of seen) console.log(k, "wall", med(s.w), "cpu", med(s.c), "anon", (s.a.sort((x,y)=>x-y)[s.a.length>>1]!).toFixed(1), "rss", (s.r.sort((x,y)=>x-y)[s.r.length>>1]!).toFixed(1));
await bed.close();
process.exit(0);
