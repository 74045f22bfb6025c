// Package pages reads lists that come in pages.
package pages

import "iter"

// All yields the items of consecutive pages, one more than limit if there are as many.
func All[T any](get func(limit int, cursor string) ([]T, string, error), limit int) iter.Seq2[T, error] {
	const most = 1000
	if limit++; limit == 1 || limit > most {
		limit = most
	}
	return func(yield func(T, error) bool) {
		for cursor := ""; ; {
			page, next, err := get(limit, cursor)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, v := range page {
				if !yield(v, nil) {
					return
				}
			}
			if cursor = next; cursor == "" {
				return
			}
		}
	}
}
