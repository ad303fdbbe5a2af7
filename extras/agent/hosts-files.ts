import { closeSync, lstatSync } from "node:fs";
import type { Reason } from "#hostmap/types.ts";
import type { FileChange } from "./file-bytes.ts";
import {
  attempt,
  type ExpectedFile,
  type HostsFileUpdate,
  handle,
  openDirectory,
  openWithin,
  Refusal,
  refusal,
  stampOf,
  updateFile,
} from "./hosts-file.ts";
import { hostsFileLimits } from "./hosts-file-limits.ts";
import { isKubeletHosts, KUBELET_HEADER_LENGTH } from "./live-hosts.ts";

/** The pod's uid becomes a directory name, so only a well-formed uid is accepted. */
const UID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

export interface HostsFiles {
  /** Applies `change` to a pod's file. Never throws. */
  update(uid: string, change: FileChange): HostsFileUpdate;
  /** The current stamp of a pod's file; undefined if there is none. */
  stamp(uid: string): string | undefined;
  close(): void;
}

/**
 * Opens the hosts files below the kubelet's `pods` directory. Every directory on the path is opened through the
 * descriptor of its parent, and symbolic links are never followed. `owner` is the uid that files must have. Files
 * over the limits are refused. Throws the errno error if the directory does not exist.
 */
export function openHostsFiles(podsDirectory: string, owner = 0, { bytes: maxBytes } = hostsFileLimits()): HostsFiles {
  const root = openDirectory(podsDirectory);
  const expected: ExpectedFile = { owner, maxBytes, strange: { code: "not-kubelets" }, refuses: notKubelets };
  const within = <T>(uid: string, work: (directory: number) => T): T | Refusal => {
    if (!UID.test(uid)) return refusal("path-not-plain", "the pod's uid is malformed");
    return attempt(() => {
      const directory = openWithin(root, uid);
      try {
        return work(directory);
      } finally {
        closeSync(directory);
      }
    });
  };
  return {
    update(uid, change) {
      const outcome = within(uid, (directory) => updateFile(`${handle(directory)}/etc-hosts`, expected, change));
      return outcome instanceof Refusal ? outcome.outcome : outcome;
    },
    stamp(uid) {
      const stamp = within(uid, (directory) => stampOf(lstatSync(`${handle(directory)}/etc-hosts`, { bigint: true })));
      return stamp instanceof Refusal ? undefined : stamp;
    },
    close: () => closeSync(root),
  };
}

/** Returns why this content cannot be the kubelet's. */
function notKubelets(content: Buffer): Reason | undefined {
  if (isKubeletHosts(content.toString("latin1", 0, KUBELET_HEADER_LENGTH))) return undefined;
  if (content.length === 0) return { code: "file-empty", text: "the hosts file is empty: it is being written" };
  return {
    code: "not-kubelets",
    text: "the hosts file does not start with the kubelet's header: something in the pod has replaced its content",
  };
}
