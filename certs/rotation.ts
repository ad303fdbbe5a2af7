/**
 * Decides the next step of a rotation. A pure function of facts and a time, which returns a step and its reason.
 *
 * Two things spread slowly and independently: the caBundle to every API server, and the leaf to every webhook
 * replica. Each should arrive within the overlap (`certs.overlapSeconds`). So at most one of them changes in an
 * overlap:
 *
 *     create-next   next CA created                       bundle: signer
 *     publish                                             bundle: next + signer
 *     stamp-next    the API server confirmed it  ── overlap: old leaf, old and new bundles ──
 *     promote       next becomes the signer, the old one `previous`
 *     issue-leaf    leaf of the new signer                bundle: signer + previous
 *     stamp-previous                             ── overlap: old and new leaf, one bundle ──
 *     drop-previous                                       bundle: signer
 *
 * Every step is one write, and the state is read again before each. So a crash or a change of leader between two
 * steps only delays the next one. The same steps repair deleted or damaged objects, and take over from another
 * manager (mode-change.ts): Switchback's CA is then the next one, and the other manager's CA a previous one.
 */
import type { Reason } from "#hostmap/types.ts";

/** How far `notBefore` is backdated, for clocks that are behind. */
export const BACKDATE_MS = 5 * 60_000;
/**
 * The wait for a new CA to reach the API servers if the leaf is lost too. Running replicas may still serve the lost
 * leaf, but a starting replica has no leaf, so the wait is short. A watch event takes far less.
 */
export const LOST_LEAF_WAIT_MS = 30_000;
/** Maximum time between two turns if nothing is due. */
const IDLE_MS = 24 * 3_600_000;

/** Times are Unix milliseconds; `id` identifies the certificate. */
export interface CertFacts {
  readonly id: string;
  readonly notBefore: number;
  readonly notAfter: number;
}

export interface LeafFacts extends CertFacts {
  /** The `id` of the trusted CA that signed it. Undefined if none did. */
  readonly signedBy: string | undefined;
  /** Whether it is valid for every name of the webhook's Service. */
  readonly coversNames: boolean;
}

/**
 * The live caBundle compared with the desired one. `behind`: it must be written. `absent`: there is no webhook
 * configuration, so no API server calls the webhook. `unknown`: it could not be read or written.
 */
export type BundleState = "current" | "behind" | "absent" | "unknown";

export interface RotationState {
  /** The CA that signs leaves. Undefined if the CA or its key is lost. */
  readonly signer: CertFacts | undefined;
  /** The CA that will sign, once every API server trusts it. */
  readonly next: CertFacts | undefined;
  /** When the API server confirmed `next` in the bundle. */
  readonly nextSince: number | undefined;
  /** CAs that no longer sign but may have signed a leaf that is still served. */
  readonly previous: readonly CertFacts[];
  /** When the current leaf was first a leaf of `signer`. */
  readonly previousSince: number | undefined;
  readonly leaf: LeafFacts | undefined;
  /** Why the stored leaf is unusable. */
  readonly leafFault: Reason | undefined;
  /** The stored state is partly broken, or another manager's CA is in use. The known state must be stored first. */
  readonly fault: Reason | undefined;
  readonly bundle: BundleState;
}

interface RotationSettings {
  readonly overlapMs: number;
}

export type StepName =
  | "create-signer"
  | "create-next"
  | "repair"
  | "publish"
  | "stamp-next"
  | "promote"
  | "issue-leaf"
  | "stamp-previous"
  | "drop-previous"
  | "wait";

interface RotationPlan {
  readonly step: StepName;
  readonly reason: Reason;
  /** With `wait`: when a step may be due, Unix milliseconds. */
  readonly at: number;
}

type Rule = (state: RotationState, now: number, settings: RotationSettings) => RotationPlan | undefined;

/** When a certificate is replaced: after two thirds of its lifetime, counted from its issuance. */
export function renewAt(cert: CertFacts): number {
  return cert.notAfter - Math.max(0, cert.notAfter - cert.notBefore - BACKDATE_MS) / 3;
}

function alive(cert: CertFacts | undefined, now: number): boolean {
  return cert !== undefined && now < cert.notAfter;
}

/** Ignores a timestamp in the future, which a wrong clock wrote. The wait starts again. */
function stamped(stamp: number | undefined, now: number): number | undefined {
  return stamp !== undefined && stamp <= now ? stamp : undefined;
}

/** Whether an API server that trusts Switchback's CAs accepts the current leaf. */
function leafServes({ leaf }: RotationState, now: number): boolean {
  return leaf !== undefined && leaf.signedBy !== undefined && alive(leaf, now);
}

/** How long `next` must have been in the bundle before it signs. Shorter if there is no leaf to keep valid. */
function promotionWait(state: RotationState, now: number, { overlapMs }: RotationSettings): number {
  if (alive(state.signer, now) || leafServes(state, now)) return overlapMs;
  return state.previous.some((cert) => alive(cert, now)) ? Math.min(overlapMs, LOST_LEAF_WAIT_MS) : 0;
}

function act(step: StepName, code: string, text: string): RotationPlan {
  return { step, reason: { code, text }, at: 0 };
}

/** No CA can sign. Known old CAs stay in the bundle, as their leaves may still be served. */
const createFirst: Rule = (state, now) => {
  if (state.signer !== undefined || state.next !== undefined) return undefined;
  const why = state.fault ?? { code: "first-start", text: "no certificates exist yet" };
  if (state.bundle === "unknown") {
    const text = `${why.text}; the webhook configuration cannot be read, so the CA in use is unknown`;
    return { step: "wait", reason: { code: "bundle-unreadable", text }, at: now };
  }
  const inUse = state.previous.some((cert) => alive(cert, now));
  return inUse
    ? act("create-next", why.code, `${why.text}: creating a new CA; the old certificate stays trusted for now`)
    : act("create-signer", why.code, `${why.text}: creating a new CA`);
};

const repair: Rule = ({ fault, bundle }) =>
  fault === undefined || bundle === "unknown"
    ? undefined
    : act("repair", fault.code, `${fault.text}: storing the known state`);

const publish: Rule = ({ bundle }) =>
  bundle === "behind"
    ? act("publish", "bundle-behind", "the webhook configuration does not have the desired CAs")
    : undefined;

const stampNext: Rule = (state, now) =>
  state.next !== undefined && state.bundle === "current" && stamped(state.nextSince, now) === undefined
    ? act("stamp-next", "next-published", "the API server has the next CA in the bundle")
    : undefined;

const promote: Rule = (state, now, settings) => {
  if (state.next === undefined) return undefined;
  const wait = promotionWait(state, now, settings);
  if (wait === 0) return act("promote", "nothing-to-protect", "no working certificate is in use: no wait is needed");
  if (state.bundle === "absent" && !alive(state.signer, now) && !leafServes(state, now)) {
    return act("promote", "no-caller", "there is no webhook configuration: no API server can call with an old bundle");
  }
  const since = stamped(state.nextSince, now);
  return state.bundle === "current" && since !== undefined && now - since >= wait
    ? act("promote", "overlap-over", "the next CA has been in the bundle for the overlap")
    : undefined;
};

/** Why the signer should issue a new leaf, or undefined. Every leaf of the signer is trusted, so no reason waits. */
function leafDue(state: RotationState, signer: CertFacts, now: number): Reason | undefined {
  const { leaf } = state;
  if (leaf === undefined) {
    return state.leafFault ?? { code: "leaf-missing", text: "there is no serving certificate" };
  }
  const checks: readonly (readonly [boolean, string, string])[] = [
    [leaf.signedBy !== signer.id, "leaf-of-other-ca", "the serving certificate was not signed by the current CA"],
    [!leaf.coversNames, "leaf-names", "the serving certificate does not cover the names of the Service"],
    [now >= leaf.notAfter, "leaf-expired", "the serving certificate has expired"],
    [now < leaf.notBefore, "leaf-not-yet-valid", "the serving certificate is not valid yet"],
    [now >= renewAt(leaf), "leaf-due", "two thirds of the serving certificate's lifetime have passed"],
  ];
  const hit = checks.find(([bad]) => bad);
  return hit === undefined ? undefined : { code: hit[1], text: hit[2] };
}

const issueLeaf: Rule = (state, now) => {
  if (state.signer === undefined || !alive(state.signer, now)) return undefined;
  const reason = leafDue(state, state.signer, now);
  return reason && { step: "issue-leaf", reason, at: 0 };
};

const stampPrevious: Rule = (state, now) =>
  state.previous.length > 0 &&
  state.signer !== undefined &&
  state.leaf?.signedBy === state.signer.id &&
  stamped(state.previousSince, now) === undefined
    ? act("stamp-previous", "leaf-offered", "the current leaf was signed by the new CA")
    : undefined;

const dropPrevious: Rule = (state, now, { overlapMs }) => {
  const since = stamped(state.previousSince, now);
  const over = since !== undefined && now - since >= overlapMs && state.leaf?.signedBy === state.signer?.id;
  return state.previous.length > 0 && state.signer !== undefined && over
    ? act("drop-previous", "overlap-over", "the new leaf has been available for the overlap")
    : undefined;
};

const createNext: Rule = (state, now) => {
  const { signer } = state;
  if (signer === undefined || state.next !== undefined) return undefined;
  if (now >= signer.notAfter) return act("create-next", "ca-expired", "the CA has expired: creating a new one");
  if (state.previous.length > 0) return undefined;
  if (now < signer.notBefore)
    return act("create-next", "ca-not-yet-valid", "the CA is not valid yet: creating a new one");
  return now >= renewAt(signer)
    ? act("create-next", "ca-due", "two thirds of the CA's lifetime have passed: creating the next one")
    : undefined;
};

/** The first match wins. `publish` comes before every step that relies on the bundle. */
const RULES: readonly Rule[] = [
  createFirst,
  repair,
  publish,
  stampNext,
  promote,
  issueLeaf,
  stampPrevious,
  dropPrevious,
  createNext,
];

function waitReason(state: RotationState): Reason {
  if (state.bundle === "unknown") {
    return { code: "bundle-unreadable", text: "the webhook configuration cannot be read or written" };
  }
  if (state.bundle === "absent") {
    return {
      code: "bundle-absent",
      text: "there is no webhook configuration: the API server does not call the webhook",
    };
  }
  if (state.next !== undefined) {
    return { code: "before-switch", text: "the next CA is trusted; its first leaf waits for the overlap" };
  }
  return state.previous.length > 0
    ? { code: "after-switch", text: "the old CA stays trusted for the overlap" }
    : { code: "steady", text: "nothing is due" };
}

function waitUntil(state: RotationState, now: number, settings: RotationSettings): number {
  const { next, signer, leaf } = state;
  const times = [now + IDLE_MS];
  const nextSince = stamped(state.nextSince, now);
  if (next !== undefined && nextSince !== undefined) times.push(nextSince + promotionWait(state, now, settings));
  const previousSince = stamped(state.previousSince, now);
  if (state.previous.length > 0 && previousSince !== undefined) times.push(previousSince + settings.overlapMs);
  if (signer !== undefined && next === undefined) times.push(renewAt(signer));
  if (signer !== undefined) times.push(signer.notAfter);
  if (leaf !== undefined) times.push(renewAt(leaf), leaf.notAfter);
  // An overdue step waits for something else (an absent configuration), not for a time.
  return Math.min(...times.filter((time) => time > now));
}

/** The next step for this state, or `wait` with a time. */
export function planRotation(state: RotationState, now: number, settings: RotationSettings): RotationPlan {
  for (const rule of RULES) {
    const plan = rule(state, now, settings);
    if (plan !== undefined) return plan;
  }
  return { step: "wait", reason: waitReason(state), at: waitUntil(state, now, settings) };
}
