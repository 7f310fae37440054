// litelogs makes a litewitness database that knows the logs of a logs/v0 list.
//
//	litelogs DATABASE LIST
package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "litelogs:", err)
		os.Exit(1)
	}
}

func run(database, list string) error {
	db, err := sqlite.OpenConn(database)
	if err != nil {
		return err
	}
	defer db.Close()
	// The schema of litewitness v0.6.1.
	err = sqlitex.ExecScript(db, `
		PRAGMA strict_types = ON;
		PRAGMA foreign_keys = ON;
		CREATE TABLE IF NOT EXISTS log (
			origin TEXT PRIMARY KEY,
			tree_size INTEGER NOT NULL,
			tree_hash TEXT NOT NULL -- base64-encoded
		);
		CREATE TABLE IF NOT EXISTS key (
			origin TEXT NOT NULL,
			key TEXT NOT NULL, -- note verifier key
			FOREIGN KEY(origin) REFERENCES log(origin)
		);`)
	if err != nil {
		return err
	}
	file, err := os.Open(list)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := sqlitex.Execute(db, "BEGIN", nil); err != nil {
		return err
	}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		vkey, ok := strings.CutPrefix(lines.Text(), "vkey ")
		if !ok {
			continue
		}
		origin, _, _ := strings.Cut(vkey, "+")
		err = sqlitex.Execute(db, "INSERT INTO log VALUES (?, 0, '47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=')",
			&sqlitex.ExecOptions{Args: []any{origin}})
		if err != nil {
			return err
		}
		err = sqlitex.Execute(db, "INSERT INTO key VALUES (?, ?)", &sqlitex.ExecOptions{Args: []any{origin, vkey}})
		if err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return sqlitex.Execute(db, "COMMIT", nil)
}
