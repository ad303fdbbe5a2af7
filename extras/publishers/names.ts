/** What there is a publisher for. */
export const PUBLISHERS = ["coredns-import", "coredns", "external-dns"] as const;
