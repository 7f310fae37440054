// Package interop runs runseal-witness against the Go implementations: their keys, notes, proofs and
// tiles, and the bastion that others serve through. RUNSEAL_WITNESS names the program.
package interop

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// goLog is a log made of golang.org/x/mod/sumdb.
type goLog struct {
	origin string
	signer note.Signer
	vkey   string
	hashes []tlog.Hash
	size   int64
}

func newLog(t *testing.T, origin string) *goLog {
	skey, vkey, err := note.GenerateKey(rand.Reader, origin)
	check(t, err)
	signer, err := note.NewSigner(skey)
	check(t, err)
	return &goLog{origin: origin, signer: signer, vkey: vkey}
}

func (l *goLog) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	hashes := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		hashes[i] = l.hashes[index]
	}
	return hashes, nil
}

func (l *goLog) grow(t *testing.T, size int64) {
	for ; l.size < size; l.size++ {
		more, err := tlog.StoredHashes(l.size, []byte(fmt.Sprint("entry ", l.size)), l)
		check(t, err)
		l.hashes = append(l.hashes, more...)
	}
}

func (l *goLog) checkpoint(t *testing.T, size int64) []byte {
	root, err := tlog.TreeHash(size, l)
	check(t, err)
	text := torchwood.Checkpoint{Origin: l.origin, Tree: tlog.Tree{N: size, Hash: root}}.String()
	signed, err := note.Sign(&note.Note{Text: text}, l.signer)
	check(t, err)
	return signed
}

func (l *goLog) request(t *testing.T, old, size int64) string {
	var body strings.Builder
	fmt.Fprintf(&body, "old %d\n", old)
	if old > 0 && old < size {
		proof, err := tlog.ProveTree(size, old, l)
		check(t, err)
		for _, hash := range proof {
			fmt.Fprintf(&body, "%s\n", hash)
		}
	}
	fmt.Fprintf(&body, "\n%s", l.checkpoint(t, size))
	return body.String()
}

// witness is a running runseal-witness.
type witness struct {
	url, vkey string
	verifier  note.Verifier
}

func command(t *testing.T, folder string, args ...string) *exec.Cmd {
	program := os.Getenv("RUNSEAL_WITNESS")
	if program == "" {
		t.Fatal("RUNSEAL_WITNESS does not name the program to test")
	}
	c := exec.Command(program, args...)
	c.Dir = folder
	return c
}

func output(t *testing.T, c *exec.Cmd) string {
	t.Helper()
	out, err := c.Output()
	if err != nil {
		var said []byte
		if exit, ok := err.(*exec.ExitError); ok {
			said = exit.Stderr
		}
		t.Fatalf("%v: %v\n%s", c.Args, err, said)
	}
	return string(out)
}

// start runs a witness that follows the logs of list, with a key that Go made: torchwood has a
// verifier for cosignatures only where it has the signer.
func start(t *testing.T, private ed25519.PrivateKey, list string, more ...string) *witness {
	folder := t.TempDir()
	name := "witness.example/interop"
	signer, err := torchwood.NewCosignatureSigner(name, private)
	check(t, err)
	check(t, os.WriteFile(filepath.Join(folder, "key"), []byte(noteKey(t, name, private)+"\n"), 0o600))
	check(t, os.WriteFile(filepath.Join(folder, "logs"), []byte(list), 0o600))
	output(t, command(t, folder, "init", "--db", "db"))
	vkey := strings.TrimSpace(output(t, command(t, folder, "vkey", "--key", "key")))
	if vkey != signer.Verifier().String() {
		t.Fatalf("the vkey is %s, which torchwood spells %s", vkey, signer.Verifier())
	}
	args := []string{"serve", "--key", "key", "--db", "db", "--logs", "logs", "--listen", "127.0.0.1:0"}
	c := command(t, folder, append(args, more...)...)
	stderr, err := c.StderrPipe()
	check(t, err)
	check(t, c.Start())
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		if _, url, ok := strings.Cut(lines.Text(), "listening on "); ok {
			go func() {
				for lines.Scan() {
					t.Log(lines.Text())
				}
			}()
			return &witness{url: url, vkey: vkey, verifier: signer.Verifier()}
		}
		t.Log(lines.Text())
	}
	t.Fatal("the witness did not start")
	return nil
}

func post(t *testing.T, client *http.Client, url, body string) (int, string) {
	response, err := client.Post(url+"/add-checkpoint", "text/plain", strings.NewReader(body))
	check(t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	check(t, err)
	return response.StatusCode, string(answer)
}

// open verifies a note with the log's key and the witness's, as torchwood's clients do.
func open(t *testing.T, signed []byte, log *goLog, cosigner note.Verifier) {
	t.Helper()
	logVerifier, err := note.NewVerifier(log.vkey)
	check(t, err)
	n, err := note.Open(signed, note.VerifierList(logVerifier, cosigner))
	check(t, err)
	if len(n.Sigs) != 2 {
		t.Fatalf("%d signatures verify, not the log's and the witness's:\n%s", len(n.Sigs), signed)
	}
	timestamp, err := torchwood.CosignatureTimestamp(n.Sigs[1])
	check(t, err)
	if age := time.Since(time.Unix(timestamp, 0)); age < -time.Minute || age > time.Minute {
		t.Fatalf("cosigned %v ago", age)
	}
	if _, err := torchwood.ParseCheckpoint(n.Text); err != nil {
		t.Fatal(err)
	}
}

func TestGoLogIsCosigned(t *testing.T) {
	log := newLog(t, "log.example/go")
	w := start(t, newKey(t), "logs/v0\nvkey "+log.vkey+"\n")
	log.grow(t, 3000)
	old := int64(0)
	for _, size := range []int64{1, 2, 3, 4, 7, 8, 9, 255, 256, 257, 1000, 1000, 2048, 3000} {
		status, answer := post(t, http.DefaultClient, w.url, log.request(t, old, size))
		if status != 200 {
			t.Fatalf("%d to %d: %d %s", old, size, status, answer)
		}
		open(t, append(log.checkpoint(t, size), answer...), log, w.verifier)
		old = size
	}
	if status, answer := post(t, http.DefaultClient, w.url, log.request(t, 5, 3000)); status != 409 || answer != "3000\n" {
		t.Fatalf("%d %q", status, answer)
	}
	hash := sha256.Sum256([]byte(log.origin))
	response, err := http.Get(w.url + "/" + hex.EncodeToString(hash[:]) + "/checkpoint")
	check(t, err)
	served, err := io.ReadAll(response.Body)
	check(t, err)
	open(t, served, log, w.verifier)
}

func TestGoTilesArePulled(t *testing.T) {
	log := newLog(t, "log.example/tiles")
	var lock sync.Mutex
	files := map[string][]byte{}
	publish := func(size int64) {
		log.grow(t, size)
		lock.Lock()
		defer lock.Unlock()
		for _, tile := range tlog.NewTiles(8, 0, size) {
			data, err := tlog.ReadTileData(tile, log)
			check(t, err)
			files["/"+torchwood.TilePath(tile)] = data
		}
		files["/checkpoint"] = log.checkpoint(t, size)
	}
	publish(300)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		lock.Lock()
		data, ok := files[r.URL.Path]
		lock.Unlock()
		if !ok {
			http.NotFound(rw, r)
			return
		}
		rw.Write(data)
	}))
	defer server.Close()
	w := start(t, newKey(t), "log "+log.vkey+" "+server.URL+"/\nquorum none\n", "--feed", "100ms")
	hash := sha256.Sum256([]byte(log.origin))
	served := func(size int64) []byte {
		for range 200 {
			response, err := http.Get(w.url + "/" + hex.EncodeToString(hash[:]) + "/checkpoint")
			check(t, err)
			body, err := io.ReadAll(response.Body)
			check(t, err)
			if response.StatusCode == 200 && strings.Contains(string(body), fmt.Sprintf("\n%d\n", size)) {
				return body
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Fatalf("size %d was never cosigned", size)
		return nil
	}
	open(t, served(300), log, w.verifier)
	publish(70000)
	open(t, served(70000), log, w.verifier)
}

func TestServedThroughGoBastion(t *testing.T) {
	bastion := os.Getenv("LITEBASTION")
	if bastion == "" {
		t.Skip("LITEBASTION does not name a litebastion program")
	}
	folder := t.TempDir()
	writeCertificates(t, folder)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	port := listener.Addr().(*net.TCPAddr).Port
	listener.Close()
	// The witness's key decides the backend's name, so it comes first.
	private := newKey(t)
	backend := sha256.Sum256(private.Public().(ed25519.PublicKey))
	check(t, os.WriteFile(filepath.Join(folder, "backends"), []byte(hex.EncodeToString(backend[:])+"\n"), 0o600))
	address := fmt.Sprintf("localhost:%d", port)
	c := exec.Command(bastion, "-testcert", "-backends=backends", "-listen="+address)
	c.Dir = folder
	c.Stderr = os.Stderr
	check(t, c.Start())
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })

	log := newLog(t, "log.example/bastion")
	log.grow(t, 9)
	w := start(t, private, "logs/v0\nvkey "+log.vkey+"\n", "--bastion", address, "--bastion-ca", filepath.Join(folder, "rootCA.pem"))
	roots := x509.NewCertPool()
	ca, err := os.ReadFile(filepath.Join(folder, "rootCA.pem"))
	check(t, err)
	roots.AppendCertsFromPEM(ca)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	prefix := "https://" + address + "/" + hex.EncodeToString(backend[:])
	for range 200 {
		response, err := client.Get(prefix + "/healthz")
		if err == nil {
			response.Body.Close()
			if response.StatusCode == 200 {
				break
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	old := int64(0)
	for _, size := range []int64{3, 9} {
		status, answer := post(t, client, prefix, log.request(t, old, size))
		if status != 200 {
			t.Fatalf("%d %s", status, answer)
		}
		open(t, append(log.checkpoint(t, size), answer...), log, w.verifier)
		old = size
	}
}

func newKey(t *testing.T) ed25519.PrivateKey {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	check(t, err)
	return private
}

// noteKey spells an Ed25519 key as golang.org/x/mod/sumdb/note does.
func noteKey(t *testing.T, name string, private ed25519.PrivateKey) string {
	vkey, err := note.NewEd25519VerifierKey(name, private.Public().(ed25519.PublicKey))
	check(t, err)
	id := strings.SplitN(vkey, "+", 3)[1]
	return "PRIVATE+KEY+" + name + "+" + id + "+" + base64.StdEncoding.EncodeToString(append([]byte{1}, private.Seed()...))
}

func writeCertificates(t *testing.T, folder string) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	check(t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), caKey)
	check(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	check(t, err)
	for name, block := range map[string]*pem.Block{
		"rootCA.pem":        {Type: "CERTIFICATE", Bytes: caDER},
		"localhost.pem":     {Type: "CERTIFICATE", Bytes: leafDER},
		"localhost-key.pem": {Type: "PRIVATE KEY", Bytes: keyDER},
	} {
		check(t, os.WriteFile(filepath.Join(folder, name), pem.EncodeToMemory(block), 0o600))
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
