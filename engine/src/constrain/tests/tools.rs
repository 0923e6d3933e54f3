//! Replies that call tools: whatever a model prefers, each call is whole and its arguments are valid.

use super::walks::{walk, Walk};
use super::*;

const SYNTAXES: [ToolSyntax; 4] =
    [ToolSyntax::Hermes, ToolSyntax::Llama, ToolSyntax::Gemma, ToolSyntax::Pythonic];

fn weather() -> Value {
    json!({"type": "function", "function": {
        "name": "get_weather", "description": "The weather of a city",
        "parameters": {"type": "object", "properties": {
            "city": {"type": "string", "maxLength": 4}, "unit": {"enum": ["c", "f"]}, "now": {"type": "boolean"},
            "days": {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 7}, "uniqueItems": true, "maxItems": 3}
        }, "required": ["city"]},
    }})
}

fn time() -> Value {
    json!({"name": "time", "parameters": {"type": "object", "properties": {}}})
}

fn tools(syntax: ToolSyntax, choice: ToolChoice, tools: Vec<Value>) -> Result<Type> {
    Type::tools(Tools { syntax: Some(syntax), choice, ..Tools::new(tools) })
}

#[test]
fn replies_are_text_or_whole_calls() {
    for syntax in SYNTAXES {
        for choice in [ToolChoice::Auto, ToolChoice::Required, ToolChoice::Tool("get_weather".into())] {
            let ty = tools(syntax, choice.clone(), vec![weather(), time()]).unwrap();
            let (mut finished, mut called) = (0, 0);
            for seed in 0..40 {
                let walked = walk(&ty, &vocabulary(), super::tokens().as_ref(), seed, 400).unwrap();
                let Walk::Value(text) = walked else { continue };
                let value = ty.check(&text).unwrap_or_else(|e| panic!("{syntax:?} {choice:?}: {text}: {e}"));
                let reply = Reply::from_value(&value).unwrap();
                finished += 1;
                called += usize::from(!reply.calls.is_empty());
                match &choice {
                    ToolChoice::Auto => {}
                    ToolChoice::Required => {
                        assert!(!reply.calls.is_empty() && reply.text.is_empty(), "{text}")
                    }
                    ToolChoice::Tool(name) => {
                        assert!(reply.calls.len() == 1 && reply.calls[0].name == *name, "{text}");
                    }
                }
            }
            assert!(finished >= 5, "{syntax:?} {choice:?}: {finished} came to an end");
            assert!(choice == ToolChoice::Auto || called == finished);
        }
    }
}

#[test]
fn each_family_writes_calls_its_own_way() {
    let call = json!({"name": "get_weather", "arguments": {"city": "Oslo", "unit": "c", "now": true, "days": [1, 2]}});
    let arguments = r#"{"city":"Oslo","unit":"c","now":true,"days":[1,2]}"#;
    let hermes =
        format!("<tool_call>\n{{\"name\": \"get_weather\", \"arguments\": {arguments}}}\n</tool_call>");
    let json_call = format!("{{\"name\": \"get_weather\", \"parameters\": {arguments}}}");
    let python = "get_weather(city=\"Oslo\",unit=\"c\",now=True,days=[1,2])";
    let time_json = "{\"name\": \"time\", \"parameters\": {}}";
    for (syntax, text, said, calls) in [
        (ToolSyntax::Hermes, format!("Let me look. {hermes}"), "Let me look. ", 1),
        (
            ToolSyntax::Hermes,
            format!("{hermes}\n<tool_call>\n{{\"name\": \"time\", \"arguments\": {{}}}}\n</tool_call>"),
            "",
            2,
        ),
        (ToolSyntax::Llama, json_call.clone(), "", 1),
        (ToolSyntax::Llama, format!("{json_call}; {time_json}"), "", 2),
        (ToolSyntax::Gemma, format!("{json_call}\n{time_json}"), "", 2),
        (ToolSyntax::Pythonic, format!("Hm.<|tool_call_start|>[{python}]<|tool_call_end|>"), "Hm.", 1),
        (ToolSyntax::Pythonic, format!("<|tool_call_start|>[{python}, time()]<|tool_call_end|>"), "", 2),
    ] {
        let ty = tools(syntax, ToolChoice::Auto, vec![weather(), time()]).unwrap();
        let reply = Reply::from_value(&ty.check(&text).unwrap()).unwrap();
        assert_eq!((reply.text.as_str(), reply.calls.len()), (said, calls), "{text}");
        assert_eq!(json!(reply.calls[0]), call, "{text}");
        assert!(accepts(&ty, &text), "{text}");
        // A call cannot be left unfinished, nor called otherwise.
        for wrong in [text[..text.len() - 3].to_string(), text.replace("get_weather", "get_whether")] {
            assert!(ty.check(&wrong).is_err() && !accepts(&ty, &wrong), "{wrong}");
        }
    }
    for syntax in SYNTAXES {
        let ty = tools(syntax, ToolChoice::Auto, vec![time()]).unwrap();
        for text in ["", "It is \"noon\" {or [so.", "<tool", "{\"a\": 1}"] {
            assert_eq!(ty.check(text).unwrap(), json!({"text": text, "calls": []}), "{syntax:?}");
            assert!(accepts(&ty, text), "{syntax:?}: {text}");
        }
    }
}

/// Whether the matcher takes a text byte by byte, and an end after it.
fn accepts(ty: &Type, text: &str) -> bool {
    let mut matcher = Matcher::new(ty, &vocabulary()).unwrap();
    let byte = |b: u8| b as u32 + 3;
    text.bytes().all(|b| matcher.consume(byte(b)).is_ok()) && matcher.is_accepting().unwrap()
}

#[test]
fn one_bad_tool_is_named_and_the_others_stay() {
    let bad = json!({"name": "bad", "parameters": {"type": "object", "properties": {"a": {"type": "string", "pattern": "(a"}}}});
    for syntax in SYNTAXES {
        let ty = tools(syntax, ToolChoice::Required, vec![bad.clone(), time()]).unwrap();
        let [(name, Error::Type { at, keyword, .. })] = ty.refused_tools() else {
            panic!("{:?}", ty.refused_tools())
        };
        assert_eq!((name.as_str(), at.as_str(), keyword.as_str()), ("bad", "/properties/a", "pattern"));
        assert!(ty.warnings().iter().any(|w| w.contains("\"bad\"")), "{:?}", ty.warnings());
        // Where nothing else is left the error is its own, and names it.
        for refused in [
            tools(syntax, ToolChoice::Tool("bad".into()), vec![bad.clone(), time()]),
            tools(syntax, ToolChoice::Auto, vec![bad.clone()]),
        ] {
            let Err(Error::Type { at, keyword, reason }) = refused else { panic!("{refused:?}") };
            assert_eq!((at.as_str(), keyword.as_str()), ("/properties/a", "pattern"));
            assert!(reason.starts_with("tool \"bad\": "), "{reason}");
        }
    }
    // What cannot be written as a keyword argument is no tool of that family.
    let odd =
        json!({"name": "odd", "parameters": {"type": "object", "properties": {"a-b": {"type": "null"}}}});
    let ty = tools(ToolSyntax::Pythonic, ToolChoice::Auto, vec![odd.clone(), time()]).unwrap();
    assert_eq!(ty.refused_tools().len(), 1);
    assert!(tools(ToolSyntax::Hermes, ToolChoice::Auto, vec![odd, time()])
        .unwrap()
        .refused_tools()
        .is_empty());
    for wrong in [vec![], vec![json!({})], vec![json!(1)], vec![time(), time()], vec![json!({"name": ""})]] {
        assert!(tools(ToolSyntax::Hermes, ToolChoice::Auto, wrong).is_err());
    }
    assert!(tools(ToolSyntax::Hermes, ToolChoice::Tool("none".into()), vec![time()]).is_err());
    for (tool, at, reason) in [
        (json!(1), "/1", "is an object"),
        (json!({"function": "f"}), "/1/function", "is an object"),
        (json!({}), "/1", "has a name"),
        (json!({"type": "function", "function": {}}), "/1/function", "has a name"),
        (json!({"name": 7}), "/1", "is a string"),
        (json!({"name": ""}), "/1", "not empty"),
        (json!({"name": "x".repeat(300)}), "/1", "at most 256 bytes, not 300"),
        (json!({"name": "a\nb"}), "/1", "control characters"),
    ] {
        let refused = tools(ToolSyntax::Hermes, ToolChoice::Auto, vec![time(), tool.clone()]);
        let Err(Error::Type { at: found, keyword, reason: why }) = refused else { panic!("{tool}") };
        assert_eq!((found.as_str(), keyword.as_str()), (at, "name"), "{tool}: {why}");
        assert!(why.contains(reason), "{tool}: {why}");
    }
}

/// Where the parts of calls stand is found in every syntax.
#[test]
fn arguments_may_be_defined_elsewhere() {
    let defs = json!({
        "point": {"type": "object", "properties": {"x": {"enum": [1, 2]}, "next": {"$ref": "#/$defs/point"}}, "required": ["x"]},
        "name": {"type": "object", "properties": {"name": {"const": "a"}}, "required": ["name"]},
    });
    let (next, child) = (r#"{"x":1,"next":{"x":2}}"#, r#"{"child":{"child":{}}}"#);
    for (parameters, arguments, python) in [
        (json!({"$ref": "#/$defs/point", "$defs": defs}), next, r#"x=1,next={"x":2}"#),
        (
            json!({"anyOf": [{"$ref": "#/$defs/point"}, {"$ref": "#/$defs/name"}], "$defs": defs}),
            next,
            r#"x=1,next={"x":2}"#,
        ),
        (
            json!({"anyOf": [{"$ref": "#/$defs/point"}, {"$ref": "#/$defs/name"}], "$defs": defs}),
            r#"{"name":"a"}"#,
            r#"name="a""#,
        ),
        (json!({"type": "object", "properties": {"child": {"$ref": "#"}}}), child, r#"child={"child":{}}"#),
    ] {
        let tool = json!({"name": "f", "parameters": parameters});
        for syntax in SYNTAXES {
            let ty = tools(syntax, ToolChoice::Tool("f".into()), vec![tool.clone()]).unwrap();
            let text = match syntax {
                ToolSyntax::Hermes => {
                    format!("<tool_call>\n{{\"name\": \"f\", \"arguments\": {arguments}}}\n</tool_call>")
                }
                ToolSyntax::Pythonic => format!("<|tool_call_start|>[f({python})]<|tool_call_end|>"),
                _ => format!("{{\"name\": \"f\", \"parameters\": {arguments}}}"),
            };
            let value = ty.check(&text).unwrap_or_else(|e| panic!("{syntax:?}: {text}: {e}"));
            assert_eq!(value["calls"][0]["arguments"].to_string(), arguments, "{syntax:?}");
            assert!(accepts(&ty, &text), "{syntax:?}: {text}");
            for seed in 0..5 {
                let Walk::Value(text) =
                    walk(&ty, &vocabulary(), super::tokens().as_ref(), seed, 200).unwrap()
                else {
                    continue;
                };
                ty.check(&text).unwrap_or_else(|e| panic!("{syntax:?}: {text}: {e}"));
            }
        }
    }
}

#[test]
fn calls_are_found_in_the_text() {
    let said = "Let me \"look\". ";
    for (syntax, text, say) in [
        (ToolSyntax::Hermes, format!("{said}<tool_call>\n{{\"name\": \"get_weather\", \"arguments\": {{\"city\":\"{{\"}}}}\n</tool_call>\n<tool_call>\n{{\"name\": \"time\", \"arguments\": {{}}}}\n</tool_call>"), said),
        (ToolSyntax::Llama, "{\"name\": \"get_weather\", \"parameters\": {\"city\":\"{\"}}; {\"name\": \"time\", \"parameters\": {}}".into(), ""),
        (ToolSyntax::Gemma, "{\"name\": \"get_weather\", \"parameters\": {\"city\":\"{\"}}\n{\"name\": \"time\", \"parameters\": {}}".into(), ""),
        (ToolSyntax::Pythonic, format!("{said}<|tool_call_start|>[get_weather(city=\"{{\"), time()]<|tool_call_end|>"), said),
    ] {
        let ty = tools(syntax, ToolChoice::Auto, vec![weather(), time()]).unwrap();
        ty.check(&text).unwrap();
        let found = ty.calls_in(&text).unwrap();
        let part = |(start, end): (usize, usize)| text[start..end].replace("get_", "");
        let parts: Vec<_> = found.iter().map(|c| (&text[..c.said], part(c.name), part(c.arguments))).collect();
        let (weather, time, first, second) = match syntax {
            ToolSyntax::Pythonic => ("weather", "time", "(city=\"{\")", "()"),
            _ => ("\"weather\"", "\"time\"", "{\"city\":\"{\"}", "{}"),
        };
        let want = [(say, weather.to_string(), first.to_string()), (say, time.to_string(), second.to_string())];
        assert_eq!(parts, want, "{text}");
        assert_eq!(ty.calls_in("just text").unwrap(), []);
        assert_eq!(ty.tool_names().unwrap().len(), 2);
    }
}

#[test]
fn keys_are_not_repeated_in_arguments_either() {
    let open = json!({"name": "f", "parameters": {"type": "object", "additionalProperties": {"const": 1}}});
    let ty = tools(ToolSyntax::Hermes, ToolChoice::Auto, vec![open]).unwrap();
    let start = "He said \"yes\": {<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\":1,\"";
    let end = "\":1}}\n</tool_call>";
    assert!(accepts(&ty, &format!("{start}b{end}")));
    assert!(!accepts(&ty, &format!("{start}a{end}")));
}

#[test]
fn definitions_of_two_tools_do_not_meet() {
    let tool = |name: &str, ty: &str| json!({"name": name, "parameters": {"type": "object", "properties": {"x": {"$ref": "#/$defs/x"}}, "required": ["x"], "$defs": {"x": {"type": ty}}}});
    let ty = tools(ToolSyntax::Llama, ToolChoice::Required, vec![tool("f", "null"), tool("g", "boolean")])
        .unwrap();
    for (text, fits) in [
        ("{\"name\": \"f\", \"parameters\": {\"x\":null}}", true),
        ("{\"name\": \"g\", \"parameters\": {\"x\":true}}", true),
        ("{\"name\": \"f\", \"parameters\": {\"x\":true}}", false),
    ] {
        assert_eq!(accepts(&ty, text), fits, "{text}");
        assert_eq!(ty.check(text).is_ok(), fits, "{text}");
    }
}
