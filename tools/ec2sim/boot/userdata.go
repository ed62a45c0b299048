// Package boot turns running instances of the simulator into Kubernetes Nodes: it decodes their user data as
// the image's bootstrap would, registers the Node a kubelet would register, and hands it to KWOK, which makes
// it Ready, runs its pods and heartbeats. When the instance ends, the Node is taken from KWOK.
package boot

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// The families of images whose user data is understood.
const (
	AL2          = "AL2"
	AL2023       = "AL2023"
	Bottlerocket = "Bottlerocket"
	// Windows of any year: user data does not tell which.
	Windows = "Windows"
)

// Bootstrap is what user data gives an instance to know about its cluster and its kubelet.
type Bootstrap struct {
	Family      string
	ClusterName string
	Endpoint    string
	CA          string // base64 of PEM
	ClusterDNS  []string
	RAID0       bool
	Kubelet     Kubelet
}

// Kubelet is the kubelet's configuration as far as it shapes the Node.
type Kubelet struct {
	Labels         map[string]string
	Taints         []corev1.Taint
	MaxPods        int // 0: as many as the interfaces allow
	PodsPerCore    int
	KubeReserved   map[string]string
	SystemReserved map[string]string
	EvictionHard   map[string]string
}

// Decode reads user data, base64 as launch templates hold it.
func Decode(encoded string) (*Bootstrap, error) {
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, fmt.Errorf("decode base64: %w", err)
	}
	compressed := bytes.HasPrefix(data, gzipMagic)
	if compressed {
		if data, err = decompress(data); err != nil {
			return nil, err
		}
	}
	text := strings.TrimSpace(string(data))
	switch {
	case compressed && !isMIME(text) && !strings.HasPrefix(text, "#!") && !strings.Contains(text, "node.eks.aws/"):
		return nil, errors.New("only cloud-init and nodeadm decompress user data")
	case text == "":
		return nil, errors.New("the user data is empty")
	case isMIME(text):
		return decodeParts(text)
	case strings.HasPrefix(text, powerShellOpen):
		return decodePowerShell(text)
	case strings.HasPrefix(text, "#!"):
		return decodeScripts([]string{text})
	case strings.Contains(text, "node.eks.aws/"):
		return decodeNodeConfigs([]string{text})
	}
	return decodeBottlerocket(text)
}

var gzipMagic = []byte{0x1f, 0x8b}

// decompressedMax bounds what compressed user data may become.
const decompressedMax = 16 << 20

// decompress reads gzip, as cloud-init and nodeadm do.
func decompress(data []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("decompress user data: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(r, decompressedMax+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("decompress user data: %w", err)
	case len(text) > decompressedMax:
		return nil, fmt.Errorf("decompress user data: more than %d bytes", decompressedMax)
	}
	return text, nil
}

func isMIME(text string) bool {
	return strings.HasPrefix(text, "MIME-Version:") || strings.HasPrefix(text, "Content-Type:")
}

// decodeParts sorts the parts of a MIME archive into NodeConfigs and scripts. NodeConfigs win: where they
// are, scripts do not call bootstrap.sh.
func decodeParts(text string) (*Bootstrap, error) {
	configs, scripts, err := readParts(text)
	if err != nil {
		return nil, err
	}
	if len(configs) > 0 {
		return decodeNodeConfigs(configs)
	}
	return decodeScripts(scripts)
}

const nodeConfigType = "application/node.eks.aws"

func readParts(text string) (configs, scripts []string, err error) {
	msg, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil {
		return nil, nil, fmt.Errorf("read MIME header: %w", err)
	}
	kind, attrs, err := mime.ParseMediaType(msg.Header.Get("Content-Type"))
	if err != nil {
		return nil, nil, fmt.Errorf("read content type: %w", err)
	}
	if !strings.HasPrefix(kind, "multipart/") {
		return nil, nil, errors.New("the user data is not in multipart MIME format")
	}
	reader := multipart.NewReader(msg.Body, attrs["boundary"])
	for {
		part, err := reader.NextPart()
		if errors.Is(err, io.EOF) {
			return configs, scripts, nil
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read MIME part: %w", err)
		}
		body, err := partBody(part)
		if err != nil {
			return nil, nil, err
		}
		switch kind, _, _ := mime.ParseMediaType(part.Header.Get("Content-Type")); kind {
		case nodeConfigType:
			configs = append(configs, body)
		case "text/x-shellscript":
			scripts = append(scripts, body)
		}
	}
}

func partBody(part *multipart.Part) (string, error) {
	body, err := io.ReadAll(part)
	if err != nil {
		return "", fmt.Errorf("read MIME part: %w", err)
	}
	if part.Header.Get("Content-Transfer-Encoding") != "base64" {
		return string(body), nil
	}
	decoded, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(body)))
	if err != nil {
		return "", fmt.Errorf("decode MIME part: %w", err)
	}
	return string(decoded), nil
}
