package conventions_test

import "testing"

// top makes the top folder of the module the working directory of a test. A TestMain could do so for all of them, but
// "go test" would not see it, and take a result for current whose files have changed.
func top(t *testing.T) {
	t.Helper()
	t.Chdir("../..")
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
