/** Versions are integers (KEP-5504) that may exceed JavaScript's safe range. Other values are not compared. */
export function isNewer(version: string, other: string): boolean {
  return [version, other].every((each) => /^[0-9]+$/.test(each)) && BigInt(version) > BigInt(other);
}
