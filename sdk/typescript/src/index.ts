export { type CallOptions, type Options, Reprise, type TokenSource } from './client.js'
export { IndexedDBCursor, LocalStorageCursor, MemoryCursor, type TextStorage } from './cursors.js'
export {
  ConnectionError,
  ForeignError,
  GapError,
  InvalidError,
  type Problem,
  ProblemError,
  ProtocolError,
  RepriseError,
  UnprovenError,
} from './errors.js'
export type {
  EndEvent,
  EventBase,
  ExceptionEvent,
  ExecutionEvent,
  GapEvent,
  OutputEvent,
  Parse,
  PublishedEvent,
  ShownEvent,
  StartedEvent,
  StreamEvent,
} from './event.js'
export type { DownloadOptions } from './download.js'
export type { ChangeEvent, Files } from './files.js'
export type { Drop, FollowOptions, RunOptions } from './follow.js'
export type { CodeResult, Interpreters } from './interpreters.js'
export type { Keys } from './keys.js'
export type { Follow, Run, RunResult } from './loop.js'
export type { OutputOptions } from './output.js'
export type { Page, PageOptions } from './page.js'
export type { Producer, ProducerOptions } from './producer.js'
export type { ListOptions, Replicas, Sessions, Streams, Tasks, Tickets } from './resources.js'
export type { CursorStore } from './saver.js'
export { Decoder, type DecoderOptions, type Frame } from './sse.js'
export type { Stdin } from './stdin.js'
export type { Readable, UploadOptions, UploadSource } from './upload.js'
export type * from './wire.js'
