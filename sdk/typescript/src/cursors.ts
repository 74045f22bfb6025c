import { RepriseError } from './errors.js'
import { isCursorText } from './cursor.js'
import type { CursorStore } from './saver.js'

/** Keeps a cursor in memory, for loops that follow each other within one program. */
export class MemoryCursor implements CursorStore {
  private cursor: string | undefined

  load(): string | undefined {
    return this.cursor
  }

  save(cursor: string): void {
    this.cursor = cursor
  }
}

/** What LocalStorageCursor needs of a `Storage`, whose type is known only where the types of pages are. */
export interface TextStorage {
  getItem(key: string): string | null
  setItem(key: string, value: string): void
}

/** Keeps a cursor in the localStorage of a page, or in another Storage, under a key. Tabs must not share a key. */
export class LocalStorageCursor implements CursorStore {
  /** @param storage default: localStorage */
  constructor(
    private readonly key: string,
    private readonly storage: TextStorage = localStorage,
  ) {}

  load(): string | undefined {
    return checked(this.storage.getItem(this.key) ?? undefined, this.key)
  }

  save(cursor: string): void {
    this.storage.setItem(this.key, cursor)
  }
}

/** Keeps a cursor in IndexedDB under a key; workers can use it too. */
export class IndexedDBCursor implements CursorStore {
  /** @param database the name of the database, which is created if missing. Default: `reprise`. */
  constructor(
    private readonly key: string,
    private readonly database = 'reprise',
  ) {}

  async load(): Promise<string | undefined> {
    return checked((await this.transact('readonly', (store) => store.get(this.key))) as string | undefined, this.key)
  }

  async save(cursor: string): Promise<void> {
    await this.transact('readwrite', (store) => store.put(cursor, this.key))
  }

  private async transact(mode: IDBTransactionMode, work: (store: IDBObjectStore) => IDBRequest): Promise<unknown> {
    const opening = indexedDB.open(this.database, 1)
    opening.onupgradeneeded = () => opening.result.createObjectStore('cursors')
    const database = await new Promise<IDBDatabase>((resolve, reject) => {
      opening.onsuccess = () => resolve(opening.result)
      opening.onerror = () => reject(opening.error)
    })
    try {
      const transaction = database.transaction('cursors', mode)
      const request = work(transaction.objectStore('cursors'))
      return await new Promise<unknown>((resolve, reject) => {
        transaction.oncomplete = () => resolve(request.result)
        transaction.onabort = transaction.onerror = () => reject(transaction.error)
      })
    } finally {
      database.close()
    }
  }
}

/** Refuses an invalid cursor, because starting over silently would repeat everything. */
export function checked(cursor: string | undefined, where: string): string | undefined {
  if (cursor !== undefined && !isCursorText(cursor)) {
    throw new RepriseError('cursor_malformed', false, `what ${where} holds is no cursor`)
  }
  return cursor
}
