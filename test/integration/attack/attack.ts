import type { Profile } from "../system-options.ts";
import type { LoadReport } from "./neighbours.ts";
import type { Stage } from "./stage.ts";

/** Whose power an attack takes. */
type Attacker = "tenant" | "root container" | "client" | "stolen token";

/** What was tried, and whether it hurt anybody else. */
interface Outcome {
  readonly tried: string;
  /** What became of it; the start of the failure's message if it did harm. */
  readonly outcome: string;
  readonly held: boolean;
}

/** Something hostile, which must hurt only the attacker. */
export interface Attack {
  /** Two to six words, unique. */
  readonly name: string;
  readonly by: Attacker;
  /** The chart's profiles in which it can be tried; default: all. */
  readonly profiles?: readonly Profile[];
  /** Attacks, checks, and clears up. Returns what was tried and what came of it; throws if anybody else was hurt. */
  run(stage: Stage): Promise<Pick<Outcome, "tried" | "outcome">>;
}

/** An attack's result with what the neighbours noticed of it. */
export interface Report extends Outcome {
  readonly attack: Attack;
  readonly seconds: number;
  readonly load: LoadReport;
  /** Peak resident memory of each component since it started, in MiB. */
  readonly peaks: Readonly<Record<string, number>>;
}

const MAX_OUTCOME = 300;

/**
 * Runs one attack while the neighbours go on with what they do. A component that ended is harm, a name that does
 * not arrive, and what `isHarm` says of the neighbours' admissions.
 */
export async function attempt(stage: Stage, attack: Attack, isHarm: (load: LoadReport) => boolean): Promise<Report> {
  const started = performance.now();
  const load = stage.neighbours.start();
  let outcome: Outcome;
  try {
    outcome = { ...(await attack.run(stage)), held: true };
    await stage.check();
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    outcome = { tried: attack.name, outcome: text.replace(/\s+/g, " ").slice(0, MAX_OUTCOME), held: false };
  }
  const report = await load.stop();
  const missed = `${report.failed} admissions of neighbours failed, ${report.late} were late`;
  const broken = outcome.held && isHarm(report) ? { held: false, outcome: missed } : {};
  const seconds = (performance.now() - started) / 1000;
  return { ...outcome, ...broken, attack, seconds, load: report, peaks: stage.peaks() };
}
