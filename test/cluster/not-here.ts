/** Something cannot run on this machine. The message is one line that says what is missing, and how to get it. */
export class NotHere extends Error {
  override readonly name = "NotHere";
}
