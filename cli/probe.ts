import { carryOut } from "../doctor/probe/ask.ts";
import { type ProbePlan, planSchema } from "../doctor/probe/result.ts";
import { SwitchbackError } from "../errors/errors.ts";
import type { CliContext } from "./context.ts";

/** `switchback probe`: what `switchback doctor --probe` runs in its pod. The plan is JSON, the answer too, on standard output. */
export async function probe(plan: string, { stdout }: Pick<CliContext, "stdout">): Promise<void> {
  stdout.write(`${JSON.stringify(await carryOut(parsePlan(plan)))}\n`);
}

function parsePlan(text: string): ProbePlan {
  try {
    return planSchema.parse(JSON.parse(text));
  } catch (cause) {
    throw new SwitchbackError("input-invalid", "the plan is not one that `switchback doctor` makes", { cause });
  }
}
