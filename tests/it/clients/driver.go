// Runs commands of the test tests/it/clients.rs on two locks of the example client. Arguments: NAME NAME OPTION...
package main

import (
	"bufio"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"clients/dlock"
)

func main() {
	locks := map[string]*dlock.Lock{
		"":   dlock.New(os.Args[1], os.Args[3:]...),
		"2:": dlock.New(os.Args[2], os.Args[3:]...),
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		prefix, command := "", lines.Text()
		if strings.HasPrefix(command, "2:") {
			prefix, command = "2:", command[2:]
		}
		command, seconds, _ := strings.Cut(command, " ")
		fmt.Println(run(prefix, locks[prefix], command, seconds))
	}
}

func run(prefix string, lock *dlock.Lock, command, seconds string) string {
	switch command {
	case "lock":
		if err := lock.Lock(); err != nil {
			log.Fatal(err)
		}
		go printLoss(prefix, lock.Lost)
		return "ok"
	case "try":
		wait, err := time.ParseDuration(seconds + "s")
		if err != nil {
			log.Fatal(err)
		}
		isHeld, err := lock.TryLock(wait)
		if err != nil {
			log.Fatal(err)
		}
		return fmt.Sprint(isHeld)
	case "unlock":
		if err := lock.Unlock(); err != nil {
			return "error: " + err.Error()
		}
		return "ok"
	case "valid":
		return fmt.Sprint(lock.Valid())
	case "token":
		return fmt.Sprint(lock.Token)
	}
	os.Exit(0)
	return ""
}

func printLoss(prefix string, lost <-chan struct{}) {
	<-lost
	fmt.Println(prefix + "lost")
}
