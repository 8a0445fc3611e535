// Transactions of franz-go: `commit` writes transactions of which every third is aborted, `loop` copies a topic exactly once.
//
//	transactions commit BOOTSTRAP TOPIC TRANSACTIONAL_ID COUNT
//	transactions loop BOOTSTRAP SOURCE TARGET TRANSACTIONAL_ID GROUP RECORDS
//
// Both print one line for each transaction.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const recordsOfATransaction = 10

func main() {
	log.SetFlags(0)
	if len(os.Args) < 2 {
		log.Fatal("usage: transactions commit|loop ARGUMENT...")
	}
	context_, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	arguments := os.Args[2:]
	switch way := os.Args[1]; {
	case way == "commit" && len(arguments) == 4:
		commit(context_, arguments[0], arguments[1], arguments[2], number(arguments[3]))
	case way == "loop" && len(arguments) == 6:
		loop(context_, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], number(arguments[5]))
	default:
		log.Fatalf("unknown way, or a wrong number of arguments: %q", os.Args[1:])
	}
}

// commit writes `committed N` or `aborted N` to partitions 0 and 1 in transaction N.
func commit(ctx context.Context, bootstrap, topic, transactionalID string, count int) {
	client := must(kgo.NewClient(
		kgo.SeedBrokers(bootstrap),
		kgo.DefaultProduceTopic(topic),
		kgo.TransactionalID(transactionalID),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	))
	defer client.Close()
	for at := range count {
		text, end := "committed", kgo.TryCommit
		if at%3 == 0 {
			text, end = "aborted", kgo.TryAbort
		}
		check(client.BeginTransaction())
		for partition := range int32(2) {
			record := &kgo.Record{Partition: partition, Value: fmt.Appendf(nil, "%s %d", text, at)}
			check(client.ProduceSync(ctx, record).FirstErr())
		}
		check(client.EndTransaction(ctx, end))
		fmt.Println(text, at)
	}
}

// loop copies the source up to the offset `records`; every third transaction is aborted, and its records are read again. It can be
// started again after an error, and then continues where the group has committed.
func loop(ctx context.Context, bootstrap, source, target, transactionalID, group string, records int) {
	session := must(kgo.NewGroupTransactSession(
		kgo.SeedBrokers(bootstrap),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(source),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.DefaultProduceTopic(target),
		kgo.TransactionalID(transactionalID),
		kgo.RequireStableFetchOffsets(),
		kgo.RequestRetries(1000), // the broker may be away for long on a busy machine
		kgo.RetryTimeout(2*time.Minute),
	))
	defer session.Close()
	for done, transactions := 0, 0; done < records; transactions++ {
		fetches := session.PollRecords(ctx, recordsOfATransaction)
		if errors := fetches.Errors(); len(errors) > 0 && ctx.Err() != nil {
			log.Fatalf("after %d records: %v", done, errors)
		}
		if fetches.NumRecords() == 0 {
			continue
		}
		check(session.Begin())
		read, next := 0, int64(0)
		for iterator := fetches.RecordIter(); !iterator.Done(); read++ {
			record := iterator.Next()
			next = record.Offset + 1
			// What is not written makes the transaction end in an abort, and its records are read again.
			session.Produce(ctx, &kgo.Record{Value: record.Value}, nil)
		}
		check(session.Client().Flush(ctx)) // an abort drops what is not sent yet, and the test wants to see aborted records
		committed, err := session.End(ctx, kgo.TransactionEndTry(transactions%3 != 2))
		check(err)
		if committed {
			done = int(next)
		}
		fmt.Println(committed, read)
	}
}

func number(text string) int {
	return must(strconv.Atoi(text))
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
