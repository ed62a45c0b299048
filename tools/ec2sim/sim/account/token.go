package account

import (
	"bytes"
	"encoding/json"
	"encoding/xml"

	"millwright/tools/ec2sim/sim/wire"
)

// tokenRecord is the memory of a ClientToken: the digest of the first request and its answer. It is kept
// whatever happens to the resources: a token whose instance is dead still answers with the dead id.
type tokenRecord struct {
	Call   string          `json:"call"`
	Token  string          `json:"token"`
	Digest string          `json:"digest"`
	Answer json.RawMessage `json:"answer"`
}

// storedXML is an answer that comes from a token record: the inner XML of the first one.
type storedXML struct {
	Inner string `xml:",innerxml" json:"inner"`
}

// Once carries out an idempotent call: the first time by doing it, then, for the same parameters, by
// repeating the first answer. Refused calls are not remembered; a fleet that launched nothing is, since it is
// an answer.
func (s *Account) Once(c *wire.Call, do func() (any, error)) (any, error) {
	token := c.Params.Str("ClientToken")
	if token == "" {
		return do()
	}
	if len(token) > 64 {
		return nil, wire.InvalidValue("Value (%s) for parameter clientToken is invalid. Token must be no longer than 64 characters.", token)
	}
	if known := s.tokens[c.Action+" "+token]; known != nil {
		return s.repeat(c, known)
	}
	answer, err := do()
	if err != nil {
		return nil, err
	}
	stored, err := storeXML(answer)
	if err != nil {
		return nil, err
	}
	record := &tokenRecord{Call: c.Action, Token: token, Digest: wire.Digest(c.Form), Answer: stored}
	s.tokens[c.Action+" "+token] = record
	s.Keep("token", c.Action+" "+token, record)
	return answer, nil
}

func (s *Account) repeat(c *wire.Call, known *tokenRecord) (any, error) {
	if known.Digest != wire.Digest(c.Form) {
		s.Record(c, Entry{Outcome: "mismatch"})
		return nil, wire.TokenMismatch()
	}
	var answer storedXML
	if err := json.Unmarshal(known.Answer, &answer); err != nil {
		return nil, err
	}
	s.Record(c, Entry{Outcome: "repeated"})
	return answer, nil
}

// storeXML keeps the inside of an answer's XML as JSON text.
func storeXML(answer any) (json.RawMessage, error) {
	var buf bytes.Buffer
	if err := xml.NewEncoder(&buf).EncodeElement(answer, xml.StartElement{Name: xml.Name{Local: "answer"}}); err != nil {
		return nil, err
	}
	inner, err := innerXML(buf.Bytes())
	if err != nil {
		return nil, err
	}
	return json.Marshal(storedXML{inner})
}

func innerXML(data []byte) (string, error) {
	var root struct {
		Inner string `xml:",innerxml"`
	}
	if err := xml.Unmarshal(data, &root); err != nil {
		return "", err
	}
	return root.Inner, nil
}

// LoadToken puts a token of the journal back.
func (s *Account) LoadToken(l Entity) error { return LoadInto(l, s.tokens) }
