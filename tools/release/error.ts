/** An error that stops a release. The message says what to do. */
export class ReleaseError extends Error {
  override readonly name = "ReleaseError";
}
