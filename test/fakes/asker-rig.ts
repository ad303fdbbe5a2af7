import type { HeaderQuestion } from "#lib/documents/targets-format.ts";
import { answerOf } from "#proxy/detection/ask.ts";
import type { Header, Outcome } from "#proxy/detection/dial.ts";
import { type AskedQuestion, HeaderAsker, type HeaderAskerDeps } from "#proxy/detection/header-asker.ts";
import { FakeClock, LineLog } from "./clock.ts";

type Kind = Outcome["kind"];

/** The outcomes of a backend's connections: without a header, with v1, with v2. */
const MODES = {
  demands: ["closed", "answered", "answered"],
  "demands v2": ["closed", "closed", "answered"],
  optional: ["answered", "answered", "answered"],
  refuses: ["answered", "misread", "misread"],
  silent: ["silent", "silent", "silent"],
  garbage: ["misread", "misread", "misread"],
  down: ["refused", "refused", "refused"],
} as const satisfies Readonly<Record<string, readonly [Kind, Kind, Kind]>>;

export type Mode = keyof typeof MODES;

export function question(change: Partial<HeaderQuestion> = {}): HeaderQuestion {
  return {
    target: "edge",
    port: 443,
    speaks: "tls",
    upstream: "edge.infra.svc",
    upstreamIPs: ["198.51.100.9"],
    upstreamPort: 443,
    name: "shop.example.com",
    namespace: "infra",
    ...change,
  };
}

/** A connection or a round of connections that a proxy made. */
interface Made {
  /** Milliseconds since the start. */
  readonly at: number;
  readonly target: string;
  readonly namespace: string;
  readonly address: string;
}

/**
 * An asker with ports that answer according to their mode, a clock that only the test moves, and random numbers that
 * are always 0.
 */
export function askerRig({ clock = new FakeClock(), ...deps }: Partial<HeaderAskerDeps> & { clock?: FakeClock } = {}) {
  const log = new LineLog();
  const startedAt = clock.now();
  const rig = {
    clock,
    log,
    /** `mode` applies to every target that is not in `modes`. */
    mode: "demands" as Mode,
    modes: new Map<string, Mode>(),
    /** Duration of a round, by target. */
    durations: new Map<string, number>(),
    rounds: [] as Made[],
    rechecks: [] as (Made & { header: Header })[],
    /** The number of proxies that share the limits. */
    proxies: 1,
    /** The place of this proxy among them. */
    place: 0,
    inFlight: 0,
    most: 0,
    /** The first answer, as the proxy's page has it; "none" if there is no answer. */
    answer: (): string => {
      const [first] = asker.answers();
      return first === undefined ? "none" : first.answer;
    },
    roundTimes: (): number[] => rig.rounds.map(({ at }) => at),
    setQuestions: (questions: readonly HeaderQuestion[]): void => asker.setQuestions(questions, rig),
  };
  const outcome = (target: string, header: Header): Outcome => {
    const [none, v1, v2] = MODES[rig.modes.get(target) ?? rig.mode];
    return { kind: { none, v1, v2 }[header], detail: "" };
  };
  const made = ({ target, namespace, host: address }: AskedQuestion): Made => {
    return { at: clock.now() - startedAt, target, namespace, address };
  };
  const asker = new HeaderAsker({
    ask: async (asked) => {
      rig.rounds.push(made(asked));
      rig.inFlight += 1;
      rig.most = Math.max(rig.most, rig.inFlight);
      const { promise, resolve } = Promise.withResolvers<void>();
      const duration = rig.durations.get(asked.target) ?? 0;
      if (duration === 0) resolve();
      else clock.after(duration, resolve);
      await promise;
      rig.inFlight -= 1;
      const [none, v1, v2] = (["none", "v1", "v2"] as const).map((header) => outcome(asked.target, header));
      const seen = { none: none!, v1: v1!, v2: v2! };
      const answer = answerOf(seen);
      return { answer, seen };
    },
    dial: async (asked, header) => {
      rig.rechecks.push({ ...made(asked), header });
      return outcome(asked.target, header);
    },
    lookup: async () => ["192.0.2.1"],
    isSelf: () => false,
    clock,
    random: () => 0,
    log,
    ...deps,
  });
  return Object.assign(rig, { asker });
}
