import type { HeaderAnswer } from "#lib/documents/header-answers.ts";
import { portKey } from "#lib/documents/listeners.ts";
import type { ReportedAnswer } from "#lib/documents/proxy-page.ts";
import type { PublishedTarget } from "#lib/documents/targets-format.ts";

/** A known answer changes after this many equal answers, over at least CHANGE_MS, without another answer in between. */
const CHANGE_ANSWERS = 4;
const CHANGE_MS = 30_000;
/**
 * From the second change within this time on, each takes twice as long as the last one. So a port that changes its
 * answer all the time, or gives the proxies different answers, does not move its names all the time.
 */
const RESTLESS_MS = 3_600_000;

/** A port that the proxies ask. Times are milliseconds, monotonic. */
interface AskedPort {
  /** The answer that decides. Undefined: none does yet. */
  answer: HeaderAnswer | undefined;
  /** The last report of each proxy. */
  readonly reports: Map<string, ReportedAnswer>;
  /** Equal answers that contradict the one that decides. */
  series: { readonly answer: HeaderAnswer; readonly since: number; readonly count: number } | undefined;
  changes: readonly number[];
}

/** The answers of the asked ports: what every proxy reports, and what follows. */
export class HeaderAnswers {
  readonly #changeMs: number;
  #ports: ReadonlyMap<string, AskedPort> = new Map();

  /** Only tests set `changeMs`. */
  constructor(changeMs = CHANGE_MS) {
    this.#changeMs = changeMs;
  }

  /**
   * Takes over the published questions. A leader starts with the published answers, and then decides itself.
   */
  learn(targets: readonly PublishedTarget[]): void {
    const before = this.#ports;
    const asked = targets.flatMap(({ name, ask = [] }) => ask.map((each) => [portKey(name, each.port), each] as const));
    this.#ports = new Map(
      asked.map(([key, { answer }]) => {
        return [key, before.get(key) ?? { answer, reports: new Map(), series: undefined, changes: [] }];
      }),
    );
  }

  /**
   * Takes the answers on the page of each ready proxy, by the proxy's address. Undefined: the proxy did not send its
   * page. Returns whether an answer has changed. `now` is in milliseconds, monotonic. Forgets the reports of proxies
   * that are gone, but what they saw still counts.
   */
  take(pages: ReadonlyMap<string, readonly ReportedAnswer[] | undefined>, now: number): boolean {
    for (const { reports } of this.#ports.values())
      for (const proxy of reports.keys()) if (!pages.has(proxy)) reports.delete(proxy);
    const all = [...pages].flatMap(([proxy, answers = []]) => answers.map((report) => [proxy, report] as const));
    return all.filter(([proxy, report]) => this.#takes(proxy, report, now)).length > 0;
  }

  #takes(proxy: string, report: ReportedAnswer, now: number): boolean {
    const port = this.#ports.get(portKey(report.target, report.port));
    const last = port?.reports.get(proxy);
    // An equal report is the one of the last page.
    if (port === undefined || (last?.answer === report.answer && last.count === report.count)) return false;
    port.reports.set(proxy, report);
    return report.answer !== "unknown" && this.#decide(port, report.answer, now);
  }

  /** Whether a port has no answer yet, or a new answer waits for more. */
  get isWaiting(): boolean {
    return [...this.#ports.values()].some(({ answer, series }) => answer === undefined || series !== undefined);
  }

  /** The answer that decides. Undefined: none does yet. */
  answerOf(target: string, port: number): HeaderAnswer | undefined {
    return this.#ports.get(portKey(target, port))?.answer;
  }

  /** The different answers that proxies have seen last, sorted, each with the proxies. */
  seenAt(target: string, port: number): ReadonlyMap<HeaderAnswer, readonly string[]> {
    const reports = [...(this.#ports.get(portKey(target, port))?.reports ?? [])];
    const groups = Map.groupBy(reports, ([, { answer }]) => answer);
    const sorted = [...groups].sort(([one], [other]) => (one < other ? -1 : 1));
    return new Map(sorted.map(([answer, all]) => [answer, all.map(([proxy]) => proxy)]));
  }

  #decide(port: AskedPort, answer: HeaderAnswer, now: number): boolean {
    if (answer === port.answer) {
      port.series = undefined;
      return false;
    }
    const { since, count } = port.series?.answer === answer ? port.series : { since: now, count: 0 };
    const changes = port.changes.filter((at) => now - at < RESTLESS_MS);
    const lastsMs = this.#changeMs * 2 ** Math.max(0, changes.length - 1);
    const isLasting = count + 1 >= CHANGE_ANSWERS && now - since >= lastsMs;
    if (port.answer !== undefined && !isLasting) {
      port.series = { answer, since, count: count + 1 };
      return false;
    }
    port.changes = port.answer === undefined ? [] : [...changes, now];
    port.answer = answer;
    port.series = undefined;
    return true;
  }
}
