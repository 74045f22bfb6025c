// Package quota bounds what principals and tenants use, so that none of them leaves nothing to the others.
//
// A [Book] counts what is in use and knows the bounds. What is asked for is taken from the account of a principal and
// from that of its tenant, from both or from neither:
//
//	book := quota.New(&quota.Options{Tenant: quota.Limits{quota.Readers: 500}})
//	release, err := book.Take(holder, quota.Readers)
//	if err != nil {
//		return err // a *quota.Error, which package problem answers with 429, Retry-After and the name of the quota
//	}
//	defer release()
//
// Executions are counted where they wait for their turn, in package execution, and streams and bytes by the engine;
// both ask the Book for the bounds.
//
// A Book counts what its own process does. Where replicas share a store, a bound on streams or bytes holds for all of
// them together, because each sees what the store keeps; the other bounds hold for each replica.
package quota
