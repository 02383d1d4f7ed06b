// Package metrics tells Prometheus about one instance of PostgreSQL.
//
//	Prometheus ─ GET /metrics ─ agent ─ Collector ┬ Facts     of the agent: role, lease, disk
//	                                              ├ builtins  statements of ours, a row a sample
//	                                              └ Queries   of a file that the user writes
//
// Each scrape opens one connection, which nothing else waits for, and closes it. A statement that fails or takes
// longer than five seconds costs its own samples only, and counts in pawl_postgres_scrape_failed.
package metrics
