import type { KubeClient } from "#lib/kube/client.ts";
import { type Informer, watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { claimsOfIngress, type IngressView, type RawIngress, viewIngress } from "./ingress-hosts.ts";
import type { SourceState, UnresolvedClaimSink, UnresolvedSource } from "./types.ts";

/** Marks an IngressClass as the cluster's default. */
const DEFAULT_CLASS_ANNOTATION = "ingressclass.kubernetes.io/is-default-class";

interface RawIngressClass {
  readonly metadata: { readonly name: string; readonly annotations?: Readonly<Record<string, string>> };
}

/** Ingresses and IngressClasses of a cluster, through the API server. */
export function ingressSource(deps: { readonly client: KubeClient; readonly log: Logger }): UnresolvedSource {
  const { client, log } = deps;
  let informers: { readonly ingresses: Informer<IngressView>; readonly classes: Informer<boolean> } | undefined;

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
      metadataOnly: true,
      project: (raw) => (raw as RawIngressClass).metadata.annotations?.[DEFAULT_CLASS_ANNOTATION] === "true",
      onChange: () => {
        if (classesKnown) redecide();
      },
      onSynced: () => {
        classesKnown = true;
        redecide();
        // Ingresses that were listed before the classes are reported only now.
        for (const [key, view] of ingresses.objects()) emit(key, view);
        if (ingresses.state.synced) onSynced();
      },
      log,
    });

    /** A changed default affects only the Ingresses without a class. */
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
      informers = begin(sink, onSynced);
    },
    state: () => [
      informerState("ingresses", informers?.ingresses),
      informerState("ingressclasses", informers?.classes),
    ],
    stop: async () => {
      await Promise.all([informers?.ingresses.stop(), informers?.classes.stop()]);
    },
  };
}

/** With several defaults the first by name is used, as it does not depend on the order of events. */
function defaultAmong(classes: ReadonlyMap<string, boolean>): string | undefined {
  return [...classes]
    .filter(([, isDefault]) => isDefault)
    .map(([name]) => name)
    .sort()[0];
}

/** The state of an informer as the state of a source. */
export function informerState(name: string, informer: Informer<unknown> | undefined): SourceState {
  if (informer === undefined) return { name, synced: false, problems: [] };
  const { synced, problem, inactiveMs } = informer.state;
  return { name, synced, inactiveMs, problems: problem === undefined ? [] : [{ place: name, ...problem }] };
}
