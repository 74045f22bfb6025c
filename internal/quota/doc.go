// Package quota bounds the use of resources by principals and tenants, so that none of them exhausts the server.
//
// A [Book] counts the use and knows the bounds. A resource is taken from the account of a principal and from its
// tenant's,
// from both or from neither:
//
//	book := quota.New(&quota.Options{Tenant: quota.Limits{quota.Readers: 500}})
//	release, err := book.Take(holder, quota.Readers)
//	if err != nil {
//		return err // a *quota.Error, which package problem answers with 429, Retry-After and the name of the quota
//	}
//	defer release()
//
// Package execution counts executions, where they are queued, and the engine counts streams and bytes. Both ask the
// Book for the bounds.
//
// A Book counts only its own process. If replicas share a store, a bound on streams or bytes holds for all of them
// together, because each sees the whole store. The other bounds hold for each replica.
package quota
