import type { KubeClient } from "../../kube/client.ts";
import { type Informer, watchObjects } from "../../kube/watch.ts";
import type { Logger } from "../../telemetry/log.ts";
import { claimsOfIngress, type IngressView, type RawIngress, viewIngress } from "./ingress-hosts.ts";
import type { SourceState, UnresolvedClaimSink, UnresolvedSource } from "./types.ts";

/** The annotation that makes an IngressClass the cluster's default. */
const DEFAULT_CLASS_ANNOTATION = "ingressclass.kubernetes.io/is-default-class";

interface RawIngressClass {
  readonly metadata: { readonly name: string; readonly annotations?: Readonly<Record<string, string>> };
}

/** Ingresses and IngressClasses of a cluster, through the API server. */
export function ingressSource(deps: { readonly client: KubeClient; readonly log: Logger }): UnresolvedSource {
  const { client, log } = deps;
  let watchers: { readonly ingresses: Informer<IngressView>; readonly classes: Informer<boolean> } | undefined;

  function begin(sink: UnresolvedClaimSink, onSynced: () => void) {
    let defaultClass: string | undefined;
    let classesKnown = false;
    const emit = (key: string, view: IngressView | undefined) => {
      if (!classesKnown) return;
      sink(key, view === undefined ? [] : claimsOfIngress(view, defaultClass));
    };
    const ingresses = watchObjects<IngressView>({
      client,
      path: "/apis/networking.k8s.io/v1/ingresses",
      project: (raw) => viewIngress(raw as RawIngress),
      onChange: ({ key, after }) => emit(key, after),
      onSynced: () => {
        if (classesKnown) onSynced();
      },
      log,
    });
    const classes = watchObjects<boolean>({
      client,
      path: "/apis/networking.k8s.io/v1/ingressclasses",
      project: (raw) => (raw as RawIngressClass).metadata.annotations?.[DEFAULT_CLASS_ANNOTATION] === "true",
      onChange: () => {
        if (classesKnown) redecide();
      },
      onSynced: () => {
        classesKnown = true;
        redecide();
        // Ingresses that came in before the classes were known are decided only now.
        for (const [key, view] of ingresses.objects()) emit(key, view);
        if (ingresses.state.synced) onSynced();
      },
      log,
    });

    /** A changed default moves only the Ingresses that name no class. */
    function redecide(): void {
      const next = defaultAmong(classes.objects());
      if (next === defaultClass) return;
      defaultClass = next;
      for (const [key, view] of ingresses.objects()) if (view.className === undefined) emit(key, view);
    }
    return { ingresses, classes };
  }

  return {
    start: (sink, onSynced) => {
      watchers = begin(sink, onSynced);
    },
    state: () => [watcherState("ingresses", watchers?.ingresses), watcherState("ingressclasses", watchers?.classes)],
    stop: async () => {
      await Promise.all([watchers?.ingresses.stop(), watchers?.classes.stop()]);
    },
  };
}

/** With several defaults the first by name is taken, as it stays the same whatever the order of events. */
function defaultAmong(classes: ReadonlyMap<string, boolean>): string | undefined {
  return [...classes]
    .filter(([, isDefault]) => isDefault)
    .map(([name]) => name)
    .sort()[0];
}

/** A watcher's health in a source's words. */
export function watcherState(name: string, watcher: Informer<unknown> | undefined): SourceState {
  if (watcher === undefined) return { name, synced: false, problems: [] };
  const { synced, problem, inactiveMs } = watcher.state;
  return { name, synced, inactiveMs, problems: problem === undefined ? [] : [{ place: name, ...problem }] };
}
