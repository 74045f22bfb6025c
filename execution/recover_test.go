package execution_test

const envServe = "REPRISE_TEST_SERVE"

func serveUntilKilled(string) {}
