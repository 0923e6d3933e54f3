"""The same client from asyncio."""

import asyncio
import logging
import unittest

import lean_engine as lean


def words(count):
    return " ".join(f"w{i}" for i in range(count))


class Async(unittest.IsolatedAsyncioTestCase):
    def setUp(self):
        # Its debug mode, which the test case turns on, tells of every slow step of a busy machine.
        logging.getLogger("asyncio").setLevel(logging.ERROR)
        self.engine = lean.spawn()
        self.addCleanup(self.engine.close)

    async def test_values_side_by_side(self):
        model = await self.engine.aload("echo?step_ms=1")
        values = await asyncio.gather(*(model.agenerate(int, {"json": n}) for n in range(20)))
        self.assertEqual(values, list(range(20)))
        self.assertEqual((await model.arun(str, "one")).usage.prompt_tokens, 1)
        with self.assertRaises(lean.InputError):
            await model.agenerate({"id": "nmber"}, {"json": 1})

    async def test_a_stream(self):
        model = await self.engine.aload("echo")
        stream = model.astream(str, words(100))
        text = "".join([event.text async for event in stream if isinstance(event, lean.Token)])
        self.assertEqual(text, words(100))
        self.assertEqual((await stream.result()).value, words(100))

    async def test_a_cancelled_task_cancels_its_call_and_leaves_the_session_intact(self):
        session = (await self.engine.aload("echo?step_ms=20")).session()
        await session.aappend(words(10))
        task = asyncio.create_task(session.agenerate(str, words(500)))
        await asyncio.sleep(0.2)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        await session.aappend(" more")
        self.assertEqual(await session.agenerate(str), words(10) + " more")

    async def test_a_stream_that_is_left_is_cancelled(self):
        session = (await self.engine.aload("echo?step_ms=5")).session()
        async with session.astream(str, words(300)) as stream:
            async for event in stream:
                if isinstance(event, lean.Token):
                    break
            inside = await stream.checkpoint()
        self.assertGreater(inside.tokens, 0)
        self.assertEqual(await session.agenerate(str, "again"), "again")
        with self.assertRaises(asyncio.TimeoutError):
            await asyncio.wait_for(session.agenerate(str, words(500)), 0.1)
        with self.assertRaises(lean.TimedOut):
            await session.agenerate(str, words(500), timeout=0.1)


if __name__ == "__main__":
    unittest.main()
