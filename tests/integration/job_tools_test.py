#!/usr/bin/env python3
"""Tests `tethys job`: checks of job files, jobs without their bases, and the schema of jobs."""
import glob
import json
import os
import re
import unittest

from tethys_run import SMALL_JOB, FolderTest, command

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOKEN = re.compile(r'#[^\n]*|"(?:[^"\\]|\\.)*"|[A-Za-z_][A-Za-z_0-9]*|[-+.0-9][-+.0-9eE]*|\S')


def plain(text):
    """A job in text format as plain values: every field is a list of its values."""
    tokens = [token for token in TOKEN.findall(text) if not token.startswith("#")]
    tokens.reverse()

    def scalar(token):
        if token.startswith('"'):
            return json.loads(token)
        if re.match(r"[-+.0-9]", token):
            return float(token) if re.search(r"[.eE]", token) else int(token)
        return {"true": True, "false": False}.get(token, token)

    def message():
        fields = {}
        while tokens and tokens[-1] != "}":
            values = fields.setdefault(tokens.pop(), [])
            if tokens[-1] == ":":
                tokens.pop()
            if tokens[-1] == "{":
                tokens.pop()
                values.append(message())
                tokens.pop()
            elif tokens[-1] == "[":
                while tokens.pop() != "]":
                    if tokens[-1] != "]":
                        values.append(scalar(tokens.pop()))
            else:
                values.append(scalar(tokens.pop()))
        return fields
    return message()


class Schema:
    """Checks values against the schema by the rules of JSON Schema, as far as the schema uses them."""

    TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float)}

    def __init__(self, text):
        self.root = json.loads(text)

    def resolve(self, schema):
        while "$ref" in schema:
            schema = self.root["$defs"][schema["$ref"].removeprefix("#/$defs/")]
        return schema

    def shaped(self, fields, schema):
        """Lists of values as the schema wants them: a field that is no list has one value."""
        properties = self.resolve(schema).get("properties", {})
        shaped = {}
        for name, values in fields.items():
            own = properties.get(name, {})
            inner = own.get("items", own)
            values = [self.shaped(value, inner) if isinstance(value, dict) else value for value in values]
            shaped[name] = values if own.get("type") == "array" else values[0]
        return shaped

    def fits(self, value, schema=None):
        schema = self.root if schema is None else schema
        for key, rule in schema.items():
            if key in ("$schema", "$defs", "title", "description", "items", "properties"):
                good = True
            elif key == "$ref":
                good = self.fits(value, self.resolve(schema))
            elif key == "type":
                good = isinstance(value, self.TYPES[rule]) and isinstance(value, bool) == (rule == "boolean")
            elif key == "enum":
                good = value in rule
            elif key == "minimum":
                good = value >= rule
            elif key == "required":
                good = all(name in value for name in rule)
            elif key == "additionalProperties":
                good = all(name in schema["properties"] for name in value)
            elif key == "not":
                good = not self.fits(value, rule)
            else:
                count = sum(self.fits(value, each) for each in rule)
                good = {"allOf": count == len(rule), "anyOf": count > 0, "oneOf": count == 1}[key]
            if not good:
                return False
        inner = [(each, schema["items"]) for each in value] if isinstance(value, list) else []
        if isinstance(value, dict):
            inner = [(each, schema["properties"][name]) for name, each in value.items() if name in
                     schema.get("properties", {})]
        return all(self.fits(each, own) for each, own in inner)


class JobToolsTest(FolderTest):
    def tool(self, *arguments):
        return command(["job", *arguments], cwd=self.folder)

    def test_right_jobs_pass_the_check_in_silence(self):
        self.assertEqual(self.tool("check", self.job, *glob.glob(f"{SOURCE}/examples/*.textproto")), (0, ""))
        self.assertEqual(self.tool("check", "--data", self.job), (0, ""))

    def test_each_wrong_job_has_a_line_with_its_place(self):
        self.write("field.textproto", SMALL_JOB + "epoch: 3\n")
        self.write("base.textproto", SMALL_JOB.replace("learning_rate: 0.1", "learning_rate: -1"))
        self.write("upper.textproto", 'base: "base.textproto"\n')
        status, output = self.tool("check", "field.textproto", self.job, "none.textproto", "upper.textproto")
        self.assertEqual(status, 2)
        lines = output.splitlines()
        self.assertEqual(len(lines), 3, output)
        for line, place, fragment in zip(lines, (r"field.textproto:\d+:\d+: ", "none.textproto:1:1: ",
                                                 r"base.textproto:\d+:\d+: "),
                                         ("did you mean 'epochs'?", "No such file", "optimizer.learning_rate")):
            self.assertRegex(line, "^" + place)
            self.assertIn(fragment, line)

    def test_data_are_looked_at_only_on_request(self):
        self.write("files.textproto", SMALL_JOB.replace(
            "synthetic { noise { shape: [ 8, 8, 1 ] } train_samples: 4096 }",
            'npy { train_images: "x.npy" train_labels: "y.npy" }'))
        self.assertEqual(self.tool("check", "files.textproto"), (0, ""))
        status, output = self.tool("check", "--data", "files.textproto")
        self.assertEqual(status, 2)
        self.assertRegex(output, r"^files\.textproto:\d+:\d+: .*x\.npy")
        self.write("model.textproto", SMALL_JOB.replace("units: 10", "units: 9"))
        status, output = self.tool("check", "--data", "model.textproto")
        self.assertEqual(status, 2)
        self.assertRegex(output, r"^model\.textproto:\d+:\d+: ")

    def test_yaml_and_json_get_a_sentence_that_helps(self):
        for name, text in (("job.yaml", "model:\n  lenet: {}\n"), ("job.json", '{"model": {}}'), ("job", ' {"a": 1}')):
            self.write(name, text)
            for arguments in (["train", name], ["plan", name], ["job", "check", name], ["job", "flatten", name]):
                status, output = command(arguments, cwd=self.folder)
                self.assertEqual(status, 2)
                self.assertRegex(output, rf"{name}:\d+:\d+: a job file is protobuf text format, such as `model")
                self.assertIn("tethys init", output)

    def test_flat_job_means_the_same(self):
        os.mkdir(f"{self.folder}/flat")
        self.write("upper.textproto", 'base: "job.textproto"\nepochs: 7  # More.\nname: "upper"\n')
        status, flat = self.tool("flatten", "upper.textproto")
        self.assertEqual(status, 0, flat)
        self.assertNotIn("base", flat)
        self.assertIn("epochs: 7  # More.\n", flat)
        self.write("flat/upper.textproto", flat)
        plans = [command(["plan", "upper.textproto"], cwd=folder) for folder in (self.folder, f"{self.folder}/flat")]
        self.assertEqual(plans[0][0], 0)
        self.assertEqual(plans[0], plans[1])

    def test_schema_accepts_the_examples(self):
        status, text = self.tool("schema")
        self.assertEqual(status, 0, text)
        schema, jobs = Schema(text), 0
        for path in glob.glob(f"{SOURCE}/examples/**/*.textproto", recursive=True):
            with open(path, encoding="utf-8") as file:
                content = file.read()
            if "proto-message: tethys.proto.Job" not in content:
                continue
            jobs += 1
            self.assertTrue(schema.fits(schema.shaped(plain(content), schema.root)), path)
        self.assertGreater(jobs, 20)

    def test_schema_refuses_wrong_jobs(self):
        schema = Schema(self.tool("schema")[1])
        right = {"model": {"lenet": {}}, "epochs": 3, "data": {"npy": {"train_images": "x.npy"}}, "seed": 0,
                 "optimizer": {"adam": {}, "learning_rate": 1e-3}, "device": {"kind": "CPU"}}
        self.assertTrue(schema.fits(right))
        for name, wrong in (("epochs", "3"), ("epoch", 3), ("seed", -1), ("name", False), ("device", {"kind": "TPU"}),
                            ("model", {"lenet": {}, "vgg": {}}), ("model", {"layer": {"flatten": {}}}),
                            ("strategy", {"local": {}, "mirrored": {}}), ("optimizer", {"adam": None}),
                            ("data", {"npy": {"train_images": 7}}), ("data", {"mean": [0.5, "a"]})):
            self.assertFalse(schema.fits({**right, name: wrong}), (name, wrong))

    def test_fields_of_the_schema_have_descriptions(self):
        definitions = json.loads(self.tool("schema")[1])["$defs"]
        self.assertIn("Default 1", definitions["Job"]["properties"]["workers"]["description"])
        self.assertIn("WAIT: Training stands still", definitions["Elastic.OnLoss"]["description"])
        fields = [field for message in definitions.values() for field in message.get("properties", {}).values()]
        self.assertGreater(sum("description" in field for field in fields), 0.7 * len(fields))

    def test_wrong_words_are_refused(self):
        for words in (["check"], ["flatten"], ["flatten", "a", "b"], ["schema", "a"], ["lint", "a"], []):
            self.assertEqual(self.tool(*words)[0], 2, words)
        self.assertIn("--data", self.tool("schema", "--data")[1])


if __name__ == "__main__":
    unittest.main()
