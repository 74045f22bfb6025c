package redisstore

import "testing"

// TestModeOfTheServer: a cluster is known as such, also one of Valkey.
func TestModeOfTheServer(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"redis_version:7.0.15\r\nredis_mode:cluster\r\n":                        true,
		"redis_version:7.0.15\r\nredis_mode:standalone\r\n":                     false,
		"redis_version:7.2.4\r\nserver_name:valkey\r\nserver_mode:cluster\r\n":  true,
		"redis_version:7.2.4\r\nserver_name:valkey\r\nserver_mode:standalone\r": false,
	} {
		if got := isCluster(parseInfo("# Server\r\n" + text)); got != want {
			t.Errorf("%q is a cluster: %v", text, got)
		}
	}
}
