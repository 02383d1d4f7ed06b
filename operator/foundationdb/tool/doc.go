// Package tool asks databases by the executables fdbcli, fdbbackup and fdbrestore.
//
//	Status, Run   <folder>/7.3/fdbcli --exec … -C <private folder>/fdb.cluster      one process a call
//	Transact      <folder>/7.3/fdbcli, a pseudo terminal as its standard input      one process a transaction
//
// A call has a folder of its own, which is removed with it: the cluster file, the home folder of the tool,
// and the credentials of a blob store if there are any. No shell takes part. The process leads a process
// group, which is ended whole at the deadline of the call, when its context ends, when it prints without
// end, and in any case with the tool itself. What it has printed is judged by fdb.Judge.
package tool
