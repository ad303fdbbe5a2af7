/** The phases of a connection, drawn in the comment of LinuxConnection. */
export const PHASE = { connecting: 0, awaitingFirstBytes: 1, relaying: 2, lingering: 3, closed: 4 } as const;
export type Phase = (typeof PHASE)[keyof typeof PHASE];
