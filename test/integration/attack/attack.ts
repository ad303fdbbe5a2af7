import type { Profile } from "../system-options.ts";
import type { LoadReport } from "./neighbours.ts";
import type { Stage } from "./stage.ts";

/** Whose access an attack uses. */
type Attacker = "tenant" | "root container" | "client" | "stolen token";

/** What was tried, and whether it hurt anybody else. */
interface Outcome {
  readonly tried: string;
  /** The result of the attack. If it did harm, the start of the failure's message. */
  readonly outcome: string;
  readonly held: boolean;
}

/** A hostile action that must hurt only the attacker. */
export interface Attack {
  /** Two to six words, unique. */
  readonly name: string;
  readonly by: Attacker;
  /** The chart's profiles in which the attack can be tried; default: all. */
  readonly profiles?: readonly Profile[];
  /** Attacks, checks and cleans up. Returns what was tried and the result. Throws if anybody else was hurt. */
  run(stage: Stage): Promise<Pick<Outcome, "tried" | "outcome">>;
}

/** An attack's result, with its effect on the neighbours. */
export interface Report extends Outcome {
  readonly attack: Attack;
  readonly seconds: number;
  readonly load: LoadReport;
  /** Peak resident memory of each component since it started, in MiB. */
  readonly peaks: Readonly<Record<string, number>>;
}

const MAX_OUTCOME = 300;

/**
 * Runs one attack while the neighbours continue their work. It is harm if a component ended, if a name does not
 * arrive, or if `isHarm` returns true for the neighbours' admissions.
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
