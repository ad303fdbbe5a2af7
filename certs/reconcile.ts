import type { Reason } from "#hostmap/types.ts";
import { describeError, statusOf } from "#lib/errors/errors.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { authoritiesIn, type BundleView, type BundleWriter, holdsBundle } from "./ca-bundle.ts";
import { issueAuthority, issueLeaf, type MakeKey } from "./issue.ts";
import { takeOver } from "./mode-change.ts";
import { type Certificate, loadPair, readableAuthorities } from "./pem.ts";
import { PublishAttempts } from "./publish-attempts.ts";
import { type BundleState, type LeafFacts, planRotation, type StepName } from "./rotation.ts";
import { CA_SECRET, type SecretContent, type SecretStore, TLS_SECRET } from "./secret-store.ts";
import { type Authority, type CaState, decodeCa, decodeLeaf, encodeCa, servedChain, trustedBy } from "./state.ts";

export interface TurnContext {
  readonly store: SecretStore;
  readonly bundleWriter: BundleWriter;
  /** The DNS names of the serving certificate, see `servingNames`. */
  readonly names: readonly string[];
  readonly caDays: number;
  readonly leafDays: number;
  readonly overlapMs: number;
  /** Unix milliseconds. */
  readonly now: () => number;
  readonly makeKey?: MakeKey;
  readonly log: Logger;
}

/** The state after the last step that was due. Times are Unix milliseconds. */
export interface TurnResult {
  readonly reason: Reason;
  /** When the next turn is due at the latest. */
  readonly at: number;
  readonly bundle: BundleState;
  readonly caNotAfter: number | undefined;
  readonly leafNotAfter: number | undefined;
  /** Steps carried out in this turn, in order. */
  readonly steps: readonly StepName[];
  /** Why the bundle is `unknown`, if it is. */
  readonly bundleError: unknown;
  /** Something reverts or prevents the writes of the bundle. The next turn must not begin soon, even after events. */
  readonly isObstructed: boolean;
}

/** The observed state. A step is decided from it and carried out on it. */
interface Observed {
  readonly view: BundleView | undefined;
  readonly tls: SecretContent | undefined;
  readonly secret: SecretContent | undefined;
  readonly ca: CaState;
  readonly bundle: BundleState;
  readonly bundleError: unknown;
  readonly leaf: LeafFacts | undefined;
  readonly leafFault: Reason | undefined;
}

/** The longest chain of steps is 7 (a lost CA with no overlap). More than twice that allows for conflicts. */
const MAX_STEPS = 16;

/** The PEM text of a bundle. */
function bundleText(trusted: readonly Certificate[]): string {
  return trusted.map(({ pem }) => pem).join("");
}

function bundleState(view: BundleView | undefined, wanted: string): BundleState {
  if (view === undefined || view.entries.length === 0) return "absent";
  return holdsBundle(view, wanted) ? "current" : "behind";
}

/**
 * Reads all three objects, in the opposite order of a rotation's writes. Each write names the version that was read, so
 * a stale writer (a leader that was paused) can never revert a newer step. A writer that misses a write to the CA
 * Secret also has an older version of the objects that are written after it.
 */
async function observe(context: TurnContext, publishError: unknown): Promise<Observed> {
  let view: BundleView | undefined;
  let bundleError = publishError;
  try {
    view = await context.bundleWriter.read();
  } catch (error) {
    bundleError = error;
  }
  const tls = await context.store.read(TLS_SECRET);
  const secret = await context.store.read(CA_SECRET);
  const now = context.now();
  const offered = readableAuthorities(tls?.data["ca.crt"] ?? "");
  const live = view ? authoritiesIn(view) : [];
  const witnesses = [...offered, ...live].filter(({ notAfter }) => now < notAfter);
  const ca = takeOver(decodeCa(secret, witnesses), { now, chain: servedChain(tls), offered, live });
  const trusted = trustedBy(ca);
  const bundle = bundleError === undefined ? bundleState(view, bundleText(trusted)) : "unknown";
  return { view, tls, secret, ca, bundle, bundleError, ...decodeLeaf(tls, trusted, context.names) };
}

async function newAuthority({ now, caDays, makeKey }: TurnContext): Promise<Authority> {
  const pair = await issueAuthority({ now: now(), days: caDays }, makeKey);
  return { ...loadPair(pair), key: pair.key };
}

/** The next content of the CA Secret, for the steps that write it. */
async function nextCa(step: StepName, ca: CaState, context: TurnContext): Promise<Omit<CaState, "fault">> {
  switch (step) {
    case "create-signer":
      return { ...ca, signer: await newAuthority(context) };
    case "create-next":
      return { ...ca, next: await newAuthority(context), nextSince: undefined };
    case "stamp-next":
      return { ...ca, nextSince: context.now() };
    case "promote": {
      const previous = ca.signer === undefined ? ca.previous : [ca.signer, ...ca.previous];
      return { signer: ca.next, next: undefined, nextSince: undefined, previous, previousSince: undefined };
    }
    case "stamp-previous":
      return { ...ca, previousSince: context.now() };
    case "drop-previous":
      return { ...ca, previous: [], previousSince: undefined };
    default:
      return ca;
  }
}

async function carryOut(step: StepName, observed: Observed, context: TurnContext): Promise<void> {
  const { store, bundleWriter, leafDays, names, now, makeKey } = context;
  const { ca, view, tls, secret } = observed;
  if (step === "publish" && view !== undefined) {
    await bundleWriter.write(bundleText(trustedBy(ca)), view);
  } else if (step === "issue-leaf" && ca.signer !== undefined) {
    const authority = { cert: ca.signer.pem, key: ca.signer.key };
    const leaf = await issueLeaf(authority, names, { now: now(), days: leafDays }, makeKey);
    const data = { "tls.crt": leaf.cert, "tls.key": leaf.key, "ca.crt": bundleText(trustedBy(ca)) };
    await store.write(TLS_SECRET, data, tls);
  } else {
    await store.write(CA_SECRET, encodeCa(await nextCa(step, ca, context)), secret);
  }
}

/** Another writer changed or deleted the object after it was read. This is not an error: the state is read again. */
function isConflict(error: unknown): boolean {
  return statusOf(error) === 409 || statusOf(error) === 404;
}

/**
 * Carries out every step that is due, and reads the whole state again before each. If the bundle cannot be written,
 * only the steps that rely on it wait. Any other failure is thrown, and a later turn continues from the stored state.
 */
export async function runTurn(context: TurnContext, signal: AbortSignal): Promise<TurnResult> {
  const steps: StepName[] = [];
  const publishing = new PublishAttempts();
  for (let round = 0; ; round += 1) {
    const observed = await observe(context, publishing.error);
    const { ca, leaf, bundle, bundleError } = observed;
    const now = context.now();
    const plan = planRotation({ ...ca, ...observed }, now, { overlapMs: context.overlapMs });
    if (plan.step === "wait" || round >= MAX_STEPS) {
      return {
        reason: plan.reason,
        at: plan.step === "wait" ? plan.at : now,
        bundle,
        caNotAfter: ca.signer?.notAfter ?? ca.next?.notAfter,
        leafNotAfter: leaf?.notAfter,
        steps,
        bundleError,
        isObstructed: publishing.isObstructed,
      };
    }
    signal.throwIfAborted();
    if (await attempt(plan.step, observed, context, publishing)) {
      steps.push(plan.step);
      context.log.info({ step: plan.step, ...plan.reason }, "certificates: step done");
    }
  }
}

/**
 * Carries out a step.
 * @returns whether it succeeded; if not, `publishing` has the failure of a bundle, and the state must be read again
 */
async function attempt(
  step: StepName,
  observed: Observed,
  context: TurnContext,
  publishing: PublishAttempts,
): Promise<boolean> {
  const bundle = step === "publish" ? bundleText(trustedBy(observed.ca)) : undefined;
  if (publishing.isRepeated(bundle)) return false;
  try {
    await carryOut(step, observed, context);
    publishing.succeeded(bundle);
    return true;
  } catch (error) {
    context.log.debug({ step, error: describeError(error) }, "certificates: step failed");
    if (isConflict(error)) publishing.conflicted(bundle, error);
    else if (bundle === undefined) throw error;
    else publishing.failed(error);
    return false;
  }
}
