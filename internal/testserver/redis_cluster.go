package testserver

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// RedisCluster is a Redis Cluster of masters without replicas.
type RedisCluster struct {
	// Nodes are the servers of the cluster; each has a part of the slots.
	Nodes []*RedisServer
}

// Cluster starts a Redis Cluster of so many nodes, which ends with the test. If Redis is not installed, the test is
// skipped, or fails if CI is set.
func Cluster(tb testing.TB, nodes int) *RedisCluster {
	tb.Helper()
	c, err := startCluster(nodes)
	tb.Cleanup(func() {
		for _, node := range c.Nodes {
			if err := node.Stop(); err != nil {
				tb.Error(err)
			}
		}
	})
	failOrSkip(tb, err)
	return c
}

func startCluster(nodes int) (*RedisCluster, error) {
	c := &RedisCluster{}
	create := []string{"--cluster", "create"}
	for range nodes {
		node, err := StartRedis(&RedisOptions{Cluster: true})
		if err != nil {
			return c, err
		}
		c.Nodes = append(c.Nodes, node)
		create = append(create, node.Addr())
	}
	if _, err := c.Nodes[0].Command(append(create, "--cluster-yes")...); err != nil {
		return c, err
	}
	for deadline := time.Now().Add(readyWithin); ; time.Sleep(50 * time.Millisecond) {
		state, err := c.state()
		if err == nil && state == "" {
			return c, nil
		}
		if time.Now().After(deadline) {
			return c, fmt.Errorf("the cluster does not form: %s: %w", state, err)
		}
	}
}

// state returns the report of a node that finds the cluster incomplete.
func (c *RedisCluster) state() (string, error) {
	for _, node := range c.Nodes {
		info, err := node.Command("CLUSTER", "INFO")
		if err != nil || !strings.Contains(info, "cluster_state:ok") ||
			!strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r", len(c.Nodes))) {
			return info, err
		}
	}
	return "", nil
}

// URL returns the URL of the cluster, which names one of its nodes.
func (c *RedisCluster) URL() string { return c.Nodes[0].URL() }
